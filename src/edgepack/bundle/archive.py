"""The bundle as one file: a tar under zstd, the same bytes for the same bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from edgepack.bundle.manifest import MANIFEST, mode_of
from edgepack.bundle.place import placed_folder
from edgepack.context import BuildContext
from edgepack.errors import BundleError
from edgepack.files import unpack as layout
from edgepack.files.archives import BadArchive
from edgepack.files.pack import Entry, write_tarball
from edgepack.files.store import written_beside
from edgepack.records.bundle import Bundle

LEVEL = 19
LARGEST_WINDOW = 27
"""2^27 bytes: what zstd and tar --zstd unpack without being asked to (``--long``)."""


def archive_of(directory: Path) -> Path:
    """Where the archive of the bundle in this folder lies."""
    return directory.with_name(directory.name + ".tar.zst")


def pack(bundle: Bundle, destination: Path, *, context: BuildContext | None = None) -> Bundle:
    """Write the bundle's archive and return the bundle with it.

    Sorted; one folder, named as the bundle is, whatever the bundle's folder is called.
    """
    total = sum(int(file["size"]) for file in bundle.manifest["files"])
    with (
        written_beside(destination) as temporary,
        _progress(context, total) as advance,
        temporary.open("wb") as out,
    ):
        write_tarball(
            out,
            _entries(bundle),
            level=LEVEL,
            window_log=window_log(total),
            overlap_log=9,  # one job's ratio to 0.05 %
            advance=advance,
        )
    return replace(bundle, archive=destination)


def window_log(total: int) -> int:
    """The smallest window that holds so many bytes, between zstd's own for this level and the largest."""
    return max(23, min(LARGEST_WINDOW, (total + (total >> 4)).bit_length()))


def _entries(bundle: Bundle) -> list[Entry]:
    files = [MANIFEST, *(str(file["path"]) for file in bundle.manifest["files"])]
    folders = {parent.as_posix() for name in files for parent in Path(name).parents if parent != Path()}
    names = ["", *sorted({*files, *folders}, key=lambda name: name.split("/"))]
    return [
        Entry(
            name=f"{bundle.name}/{name}".rstrip("/"),
            source=bundle.directory / name,
            executable=mode_of(bundle.directory / name) == "0755",
        )
        for name in names
    ]


@contextmanager
def _progress(context: BuildContext | None, total: int) -> Iterator[Callable[[int], None]]:
    if context is None:
        yield lambda size: None
        return
    with context.progress("compress", total, unit="B") as bar:
        yield bar.advance


def unpack(archive: Path, destination: Path) -> Path:
    """Unpack a bundle's archive into the folder ``destination``, which must not exist, and return it.

    Raises ``BundleError`` for a file that is no bundle's archive, is cut off or damaged, or would write outside its
    own folder; then nothing is left behind. Whether every file is right is ``open_bundle``'s to say.
    """
    with placed_folder(destination, force=False) as folder:
        try:
            layout.unpack(archive, folder, where=_without_top, kinds=("file", "link"), executables=True)
        except BadArchive as error:
            raise BundleError(
                f"{archive} is not a bundle's archive, or is damaged: {error}",
                hint=error.hint or "download it again, or make the bundle again",
            ) from error
        if not (folder / MANIFEST).is_file():
            raise BundleError(f"{archive} is not a bundle's archive: there is no {MANIFEST} in it")
    return destination


def _without_top(path: PurePosixPath) -> PurePosixPath:
    return PurePosixPath(*path.parts[1:])
