"""Archives that were fetched, laid out on disk: packages of sources, Debian's, wheels, npm's."""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from edgepack.errors import DownloadError
from edgepack.files import unpack as layout
from edgepack.files.archives import BadArchive, Kind
from edgepack.files.unpack import FILES, Where


def unpack_download(
    archive: Path, destination: Path, *, top: str = "", skip: Sequence[str] = (), keep: Sequence[str] = ()
) -> None:
    """Lay an archive's files into ``destination``, onto what is there, without its folder ``top``.

    ``skip`` names folders to leave out, ``keep`` (when not empty) the only ones to take, relative to ``top``.
    Raises ``DownloadError`` for an archive that is damaged or wants to write elsewhere.
    """

    def where(path: PurePosixPath) -> PurePosixPath | None:
        if top:
            if not path.is_relative_to(top) or path == PurePosixPath(top):
                return None
            path = path.relative_to(top)
        if any(path.is_relative_to(name) for name in skip):
            return None
        return path if not keep or any(path.is_relative_to(name) for name in keep) else None

    _lay_out(archive, destination, where, kinds=("file", "link", "hard link"), executables=True, onto=True)


def unpack_matching(archive: Path, destination: Path, patterns: Sequence[str], *, below: int = 0) -> None:
    """Lay out plain files whose paths, without so many folders at their top, match one of the patterns.

    Raises ``DownloadError`` as ``unpack_download`` does.
    """

    def where(path: PurePosixPath) -> PurePosixPath | None:
        inner = PurePosixPath(*path.parts[below:])
        return inner if any(fnmatchcase(str(inner), pattern) for pattern in patterns) else None

    _lay_out(archive, destination, where)


def _lay_out(
    archive: Path,
    destination: Path,
    where: Where,
    *,
    kinds: Collection[Kind] = FILES,
    executables: bool = False,
    onto: bool = False,
) -> None:
    try:
        layout.unpack(archive, destination, where=where, kinds=kinds, executables=executables, onto=onto)
    except BadArchive as error:
        raise DownloadError(
            f"{archive.name} cannot be unpacked: {error}",
            hint=error.hint or "the archive is damaged: fetch it again",
        ) from error
