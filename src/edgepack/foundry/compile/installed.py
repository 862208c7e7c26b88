"""Kernel archives that are installed as wheels: found by their key, checked as any import is, and compiled without where they are wrong."""

from collections.abc import Callable
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import BundleError, EdgepackError
from edgepack.foundry.compile.exchange import import_archive
from edgepack.foundry.release import Release
from edgepack.plugins.enabled import rules
from edgepack.plugins.entry_points import Point, entry_points

GROUP = "edgepack.kernels"
"""The entry points whose names are keys of kernel archives: ``KEY = "PACKAGE"``, a package with ``FILE`` in it."""
FILE = "kernels.tar.zst"
TAKEN = "installed"
"""The folder in a kernel archive that says which distributions it has taken the objects of."""


def take_installed(folder: Path, release: Release, *, context: BuildContext) -> None:
    """Add what is installed for the kernel archive in ``folder``, once per distribution and version. Nothing is imported as code.

    Where two distributions have it, the objects of both are taken. One that is damaged, or was made from other sources, is warned of.
    """
    why_not = rules()
    known = [point for point in entry_points(GROUP) if not why_not(point)]
    ours = [point for point in known if point.name == folder.name]
    for point in ours:
        taken = folder / TAKEN / f"{point.distribution}-{point.version}"
        if not taken.exists():
            _take(point, taken, lambda *_: release, context)
    if known and not ours and not any(folder.glob("units-*")):
        names = ", ".join(f"{point.distribution} {point.version}" for point in known)
        context.note(f"no installed kernel archive is for this runtime: {names}")


def _take(
    point: Point, taken: Path, release_for: Callable[[str, str], Release], context: BuildContext
) -> None:
    name = f"{point.distribution} {point.version}"
    try:
        made = import_archive(_file_of(point), release_for=release_for, context=context)
        if made.key != point.name:
            raise BundleError(f"it is listed as {point.name[:12]} and holds {made.key[:12]}")
    except EdgepackError as error:
        context.warn(f"the kernel archive of {name} is of no use: {error.message}; what it lacks is compiled")
        return
    taken.parent.mkdir(exist_ok=True)
    taken.touch()
    context.note(f"{made.objects} compiled objects of {name}")


def _file_of(point: Point) -> Path:
    """Raises ``BundleError`` for a distribution without it."""
    found = point.point.dist and Path(str(point.point.dist.locate_file(point.value))) / FILE
    if not found or not found.is_file():
        raise BundleError(f"{FILE} is not in its package {point.value}")
    return found
