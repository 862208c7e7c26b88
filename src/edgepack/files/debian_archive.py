"""Archives laid out on disk: tar and .deb, nothing outside the folder, no links out, no devices."""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, cast

from edgepack.errors import DownloadError
from edgepack.files.store import disk_errors

_AR_MAGIC = b"!<arch>\n"


def unpack(
    archive: Path, destination: Path, *, top: str = "", skip: Sequence[str] = (), keep: Sequence[str] = ()
) -> None:
    """Lay an archive's files into ``destination``, without its folder ``top``.

    ``skip`` names folders to leave out, ``keep`` (when not empty) the only ones to take, relative to ``top``.
    Raises ``DownloadError`` for an archive that is damaged or wants to write elsewhere.
    """
    destination.mkdir(parents=True, exist_ok=True)
    try:
        with disk_errors(destination), _tar(archive) as tar:
            for member, path in _members(tar, top, skip, keep):
                _extract(tar, member, path, destination.resolve(), top)
    except (tarfile.TarError, EOFError, lzma.LZMAError, ValueError) as error:
        raise DownloadError(
            f"{archive.name} cannot be unpacked: {error}", hint="the archive is damaged: fetch it again"
        ) from error


def _members(
    tar: tarfile.TarFile, top: str, skip: Sequence[str], keep: Sequence[str]
) -> Iterator[tuple[tarfile.TarInfo, PurePosixPath]]:
    for member in tar:
        path = PurePosixPath(member.name.removeprefix("./"))
        if top:
            if not path.is_relative_to(top) or path == PurePosixPath(top):
                continue
            path = path.relative_to(top)
        if any(path.is_relative_to(name) for name in skip):
            continue
        if keep and not any(path.is_relative_to(name) for name in keep):
            continue
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise tarfile.TarError(f"{member.name} is neither a file nor a folder nor a link")
        # Folders are made as files need them: what packagers set as a folder's mode must not keep us out.
        if not member.isdir():
            yield member, path


def _extract(
    tar: tarfile.TarFile, member: tarfile.TarInfo, path: PurePosixPath, destination: Path, top: str
) -> None:
    """Lay one member out; by hand, because tarfile's own filters came with Python 3.11.4 and Debian 12 has 3.11.2."""
    place = _inside(destination, destination / path, member)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    if member.issym():
        _inside(destination, place.parent / member.linkname, member)
        place.symlink_to(member.linkname)
    elif member.islnk():
        linked = PurePosixPath(member.linkname.removeprefix("./"))
        original = destination / (linked.relative_to(top) if top else linked)
        place.hardlink_to(_inside(destination, original, member))
    else:
        content = tar.extractfile(member)
        assert content is not None, "a regular file has content"
        with place.open("wb") as out:
            shutil.copyfileobj(content, out)
        place.chmod(0o755 if member.mode & 0o100 else 0o644)


def _inside(destination: Path, place: Path, member: tarfile.TarInfo) -> Path:
    """The place, when it is below the destination whatever links lead there."""
    # The last component may be a link that is about to be replaced; what leads to it may not lead out.
    if not (place.parent.resolve() / place.name).is_relative_to(destination) or place.name == "..":
        raise tarfile.TarError(f"{member.name} would be written outside the folder")
    if member.issym() and not place.resolve().is_relative_to(destination):
        raise tarfile.TarError(f"{member.name} links outside the folder")
    return place


def _tar(archive: Path) -> tarfile.TarFile:
    if archive.suffix == ".deb":
        return _data_of_deb(archive)
    return tarfile.open(archive)


def _data_of_deb(archive: Path) -> tarfile.TarFile:
    """The data member of a Debian package: an ``ar`` archive with a compressed tar in it."""
    with archive.open("rb") as stream:
        if stream.read(8) != _AR_MAGIC:
            raise tarfile.ReadError("not a Debian package")
        while header := stream.read(60):
            if len(header) < 60 or header[58:60] != b"`\n":
                raise tarfile.ReadError("a damaged Debian package")
            name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), int(header[48:58])
            content = stream.read(size + size % 2)[:size]
            if name.startswith("data.tar"):
                return _open_member(name, content)
    raise tarfile.ReadError("a Debian package without data")


def _open_member(name: str, content: bytes) -> tarfile.TarFile:
    if name.endswith(".zst"):
        import zstandard

        stream = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content), read_across_frames=True)
        return tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|")
    return tarfile.open(fileobj=io.BytesIO(content))
