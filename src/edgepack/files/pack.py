"""Archives with the same bytes for the same content: a tar under zstd, owner 0, one fixed time."""

import io
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

JOB = 16 << 20
"""Bytes that zstd's threads compress at a time. The output depends on this, not on how many threads there are."""
MTIME = 315532800
"""1980-01-01: the oldest time that every file system and archive tool takes."""


@dataclass(frozen=True, kw_only=True)
class TarEntry:
    """One member to be."""

    name: str
    source: Path | bytes = b""
    """A file, a folder (its entry alone, without what is in it), a link (as a link), or content."""
    link: str = ""
    """A link to this instead."""
    executable: bool = False


def write_tarball(
    out: IO[bytes],
    entries: Iterable[TarEntry],
    *,
    level: int,
    window_log: int,
    advance: Callable[[int], None] | None = None,
) -> None:
    """Write the entries, in the order given, as one ``.tar.zst``; ``advance`` is told the bytes of content added.

    Modes are 0644, 0755 for folders and what is executable.
    """
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(
        level,
        window_log=window_log,
        threads=os.cpu_count() or 1,
        job_size=JOB,
        write_checksum=True,
    )
    with (
        zstandard.ZstdCompressor(compression_params=parameters).stream_writer(out, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as tar,
    ):
        for entry in entries:
            size = _add(tar, entry)
            if advance:
                advance(size)


def tar_pieces(entries: Iterable[TarEntry], *, large: int) -> Iterator[bytes | Path]:
    """The same tar cut where files of at least ``large`` bytes begin and end: those files, and what lies between them."""
    between, size = bytearray(), 0
    for entry in entries:
        info, content = _member(entry), entry.source
        between += info.tobuf(tarfile.PAX_FORMAT)
        if isinstance(content, Path) and info.size >= large:
            size += len(between) + info.size
            yield bytes(between)
            yield content
            between.clear()
        elif info.isreg():
            between += content if isinstance(content, bytes) else content.read_bytes()
        between += bytes(-info.size % tarfile.BLOCKSIZE)
    between += bytes(2 * tarfile.BLOCKSIZE)
    yield bytes(between) + bytes(-(size + len(between)) % tarfile.RECORDSIZE)


def _add(tar: tarfile.TarFile, entry: TarEntry) -> int:
    """Append one member and say how many bytes of content it has."""
    info = _member(entry)
    if not info.isreg():
        tar.addfile(info)
        return 0
    with io.BytesIO(entry.source) if isinstance(entry.source, bytes) else entry.source.open("rb") as content:
        tar.addfile(info, content)
    return info.size


def _member(entry: TarEntry) -> tarfile.TarInfo:
    info, source = tarfile.TarInfo(entry.name), entry.source
    info.mtime, info.mode = MTIME, 0o755 if entry.executable else 0o644
    if entry.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
    elif isinstance(source, bytes):
        info.size = len(source)
    elif source.is_symlink():
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, source.readlink().as_posix(), 0o777
    elif source.is_dir():
        info.type, info.mode = tarfile.DIRTYPE, 0o755
    else:
        info.size = source.stat().st_size
    return info
