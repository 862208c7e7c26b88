"""The bundle as one file: a tar under zstd, the same bytes for the same bundle."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from edgepack.bundle.manifest import MANIFEST, mode_of
from edgepack.bundle.place import placed_folder
from edgepack.context import BuildContext, Progress
from edgepack.errors import BundleError
from edgepack.files.store import written_beside
from edgepack.files.tarballs import opened_tarball
from edgepack.records.bundle import Bundle

LEVEL = 19
LARGEST_WINDOW = 27
"""2^27 bytes: what zstd and tar --zstd unpack without being asked to (``--long``)."""
JOB = 16 << 20
"""Bytes that zstd's threads compress at a time. The output depends on this, not on how many threads there are."""
MTIME = 315532800
"""1980-01-01: the oldest time that every file system and archive tool takes."""


def archive_of(directory: Path) -> Path:
    """Where the archive of the bundle in this folder lies."""
    return directory.with_name(directory.name + ".tar.zst")


def pack(bundle: Bundle, destination: Path, *, context: BuildContext | None = None) -> Bundle:
    """Write the bundle's archive and return the bundle with it.

    Sorted, owner 0, one fixed time; one folder, named as the bundle is, whatever the bundle's folder is called.
    """
    total = sum(int(file["size"]) for file in bundle.manifest["files"])
    with (
        written_beside(destination) as temporary,
        _progress(context, total) as bar,
        temporary.open("wb") as out,
    ):
        _write_archive(bundle, out, total, bar)
    return replace(bundle, archive=destination)


def _write_archive(bundle: Bundle, out: IO[bytes], total: int, bar: Progress | None) -> None:
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL,
        window_log=window_log(total),
        threads=os.cpu_count() or 1,
        job_size=JOB,
        overlap_log=9,  # jobs see a whole window of what came before: one job's ratio to 0.05 %
        write_checksum=True,
    )
    with (
        zstandard.ZstdCompressor(compression_params=parameters).stream_writer(out, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as tar,
    ):
        for name in _members(bundle):
            size = _add(tar, bundle.directory / name, f"{bundle.name}/{name}".rstrip("/"))
            if bar is not None:
                bar.advance(size)


def window_log(total: int) -> int:
    """The smallest window that holds so many bytes, between zstd's own for this level and the largest."""
    return max(23, min(LARGEST_WINDOW, (total + (total >> 4)).bit_length()))


def _members(bundle: Bundle) -> list[str]:
    files = [MANIFEST, *(str(file["path"]) for file in bundle.manifest["files"])]
    folders = {parent.as_posix() for name in files for parent in Path(name).parents if parent != Path()}
    return ["", *sorted({*files, *folders}, key=lambda name: name.split("/"))]


def _add(tar: tarfile.TarFile, path: Path, name: str) -> int:
    """Append one member and say how many bytes of content it has."""
    info = tarfile.TarInfo(name)
    info.mtime, info.mode = MTIME, 0o755
    if path.is_symlink():
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, path.readlink().as_posix(), 0o777
        tar.addfile(info)
    elif path.is_dir():
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    else:
        info.size, info.mode = path.stat().st_size, int(mode_of(path), 8)
        with path.open("rb") as stream:
            tar.addfile(info, stream)
    return info.size


@contextmanager
def _progress(context: BuildContext | None, total: int) -> Iterator[Progress | None]:
    if context is None:
        yield None
        return
    with context.progress("compress", total, unit="B") as bar:
        yield bar


def unpack(archive: Path, destination: Path) -> Path:
    """Unpack a bundle's archive into the folder ``destination``, which must not exist, and return it.

    Raises ``BundleError`` for a file that is no bundle's archive, is cut off or damaged, or would write outside its
    own folder; then nothing is left behind. Whether every file is right is ``open_bundle``'s to say.
    """
    tarball = opened_tarball(
        archive, what="a bundle's archive", hint="download it again, or make the bundle again"
    )
    with tarball as tar, placed_folder(destination, force=False) as folder:
        for member in tar:
            try:
                _extract(tar, member, folder, archive)
            except (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
                raise BundleError(f"{archive} holds {member.name!r} where it cannot be") from error
        if not (folder / MANIFEST).is_file():
            raise BundleError(f"{archive} is not a bundle's archive: there is no {MANIFEST} in it")
    return destination


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, archive: Path) -> None:
    """One member, below ``folder``, without the archive's own top folder."""
    top, _, name = member.name.partition("/")
    parts = name.split("/") if name else []
    if top in ("", ".", "..") or ".." in parts or (not parts and not member.isdir()):
        raise BundleError(f"{archive} is not a bundle's archive: it holds {member.name!r}")
    if not parts:
        return
    place = folder.joinpath(*parts)
    if not place.parent.resolve().is_relative_to(folder.resolve()):
        raise BundleError(f"{archive} would write outside its folder: {member.name!r}")
    if member.isdir():
        place.mkdir(exist_ok=True)
    elif member.issym():
        _require_inside(place, member.linkname, folder, archive)
        place.symlink_to(member.linkname)
    elif member.isfile():
        content = tar.extractfile(member)
        assert content is not None, "a regular member has content"
        with content, place.open("xb") as out:
            shutil.copyfileobj(content, out, 1 << 20)
        place.chmod(0o755 if member.mode & 0o100 else 0o644)
    else:
        raise BundleError(
            f"{archive} holds something that is neither a file, a folder nor a link: {member.name!r}"
        )


def _require_inside(place: Path, link: str, folder: Path, archive: Path) -> None:
    target = place.parent.resolve() / link
    if Path(link).is_absolute() or not target.resolve().is_relative_to(folder.resolve()):
        raise BundleError(f"{archive} holds a link that leads outside: {place.name} -> {link}")
