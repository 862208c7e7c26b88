"""A plugin's distribution, written from ``plugins/template`` under a name of its own; it works at once."""

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from edgepack.errors import OutputError, UsageError
from edgepack.files.store import disk_errors
from edgepack.terminal_text import did_you_mean

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MODEL = "acme"
"""What the template calls its plugin."""
COMMON = "common"
PLACES = {"ci.yml": ".github/workflows/test.yml"}
"""Where files go that lie elsewhere in the template."""
MARKER = "py.typed"
"""An empty file: mypy reads the plugin's types."""


def axes() -> tuple[str, ...]:
    """The axes that there is a template for."""
    folders = (each.name for each in files("edgepack.plugin_template").iterdir() if each.is_dir())
    return tuple(sorted(name for name in folders if name != COMMON and not name.startswith("_")))


def write_plugin(name: str, *, axis: str, output: Path) -> Path:
    """The folder ``output/edgepack-NAME`` with a distribution whose plugin is called NAME and brings one thing of an axis.

    Raises ``UsageError`` for a name that cannot be one, or an axis without a template, ``OutputError`` where something is
    at the folder's place already.
    """
    if not NAME.fullmatch(name) or name == "edgepack":
        raise UsageError(
            f"invalid plugin name: {name!r}",
            hint="use lower-case letters, digits and -, but not edgepack itself: e.g. raspberry or our-kiosk",
        )
    if axis not in axes():
        raise UsageError(
            f"there is no template for axis {axis!r}{did_you_mean(axis, axes())}",
            hint=f"--axis {', '.join(axes())}",
        )
    folder = output / f"edgepack-{name}"
    if folder.exists():
        raise OutputError(
            f"{folder} already exists", hint="remove it, or choose another folder with --output"
        )
    with disk_errors(folder):
        for path, text in [*_texts(COMMON), *_texts(axis)]:
            place = folder / _renamed(PLACES.get(path, path), name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_renamed(text, name), encoding="utf-8")
        (folder / _renamed("edgepack_acme", name) / MARKER).touch()
    return folder


def _texts(part: str) -> Iterator[tuple[str, str]]:
    """Path and content of each file of a part of the template."""
    todo: list[tuple[str, Traversable]] = [("", files("edgepack.plugin_template") / part)]
    while todo:
        path, found = todo.pop()
        if found.is_file():
            yield path, found.read_text(encoding="utf-8")
        elif found.name != "__pycache__":
            todo += [(f"{path}/{each.name}".lstrip("/"), each) for each in found.iterdir()]


def _renamed(text: str, name: str) -> str:
    """A text of the template with the plugin's own name: as a module, a class, an environment variable, a word."""
    module = name.replace("-", "_")
    for old, new in (
        (f"edgepack_{MODEL}", f"edgepack_{module}"),
        (f"test_{MODEL}", f"test_{module}"),
        (MODEL.title(), "".join(word.title() for word in name.split("-"))),
        (MODEL.upper(), module.upper()),
        (MODEL, name),
    ):
        text = text.replace(old, new)
    return text
