"""Licence texts of everything that is in a bundle, and an index of them."""

from collections.abc import Iterable
from pathlib import Path

from edgepack.bundles.components import Component

INDEX = "NOTICES.txt"


def write_notices(folder: Path, components: Iterable[Component]) -> None:
    """Fill a folder with a licence text a component, and ``NOTICES.txt``."""
    components = tuple(components)
    folder.mkdir()
    for component in components:
        (folder / component.file).write_bytes(component.text)
    (folder / INDEX).write_text(index(components), encoding="utf-8", newline="\n")


def index(components: Iterable[Component]) -> str:
    """Table of the bundle's components: name, version, and the file with the licence."""
    rows = [("component", "version", "licence")]
    rows += [(component.name, component.version, component.file) for component in components]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{name:<{widths[0]}}  {version:<{widths[1]}}  {file}" for name, version, file in rows]
    return (
        "This bundle holds the following, each under the licence in the file named.\n\n"
        + "\n".join(lines)
        + "\n"
    )
