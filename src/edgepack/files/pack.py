"""Archives with the same bytes for the same content: a tar under zstd or gzip, owner 0, one fixed time; members of zips."""

import hashlib
import io
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

JOB = 16 << 20
"""Bytes that zstd's threads compress at a time. The output depends on this, not on how many threads there are."""
SHORT_TABLES = {"min_match": 5, "hash_log": 17, "chain_log": 17, "target_length": 64}
"""Parameters of zstd at its high levels for what is mostly a model's weights: a tenth of the time, and no byte more."""
MTIME = 315532800
"""1980-01-01: the oldest time that every file system and archive tool takes."""
GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
GZIP_LEVEL, GZIP_MEMORY = 9, 9
STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED)
"""Quantized weights have hardly any repetitions: matches that zlib finds in them cost more than the letters they stand for (14.8 MB
of all-MiniLM-L6-v2's 23.1 under ``int8-download``, and 13.5 without). So each file is deflated both ways, and the shorter one taken."""
PIECE = 64 << 20
"""Bytes of a member that are in memory at a time, and deflated by themselves."""
SAMPLE = 8 << 20
"""Bytes of a zip's member that are deflated both ways to choose one."""


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
    weights: bool = False,
    repeats: bool = False,
    advance: Callable[[int], None] | None = None,
) -> None:
    """Write the entries, in the order given, as one ``.tar.zst``; ``advance`` is told the bytes of content added.

    ``weights``: most of it is a model's weights, which repeat nothing, and no long search is made for repetitions.
    ``repeats``: large parts of it stand in it once more, which the window is wide enough to find.
    Modes are 0644, 0755 for folders and what is executable.
    """
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(
        level,
        window_log=window_log,
        threads=os.cpu_count() or 1,
        job_size=JOB,
        write_checksum=True,
        enable_ldm=repeats,
        **(SHORT_TABLES if weights else {}),
    )
    with (
        zstandard.ZstdCompressor(compression_params=parameters).stream_writer(out, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as tar,
    ):
        for entry in entries:
            size = _add(tar, entry)
            if advance:
                advance(size)


def write_tar(out: IO[bytes], entries: Iterable[TarEntry], *, format: int = tarfile.GNU_FORMAT) -> None:
    """Write the entries, in the order given, as one tar in a form of ``tarfile``'s: every tar reads GNU's, that of busybox too."""
    with tarfile.open(fileobj=out, mode="w|", format=format, bufsize=1 << 20) as tar:
        for entry in entries:
            _add(tar, entry)


def write_tgz(out: IO[bytes], entries: Iterable[TarEntry], *, mtime: int = MTIME) -> str:
    """Write the entries, in the order given, as one ``.tar.gz`` as small as zlib makes it; the SHA-256 of the tar, hexadecimal.

    The same entries give the same bytes wherever Python has the same zlib. Modes are as ``write_tarball`` writes them.
    """
    out.write(GZIP_HEADER)
    tar = hashlib.sha256()
    crc = size = 0
    for piece in _by_member(entries, mtime):
        tar.update(piece)
        crc, size = zlib.crc32(piece, crc), size + len(piece)
        out.write(min((_deflated(piece, strategy) for strategy in STRATEGIES), key=len))
    out.write(zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS).flush())
    out.write(struct.pack("<II", crc, size & 0xFFFFFFFF))
    return tar.hexdigest()


def add_to_zip(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, content: Path | bytes, *, level: int = GZIP_LEVEL
) -> None:
    """Write a member of a zip, as it is at level 0, else deflated by the strategy that leaves fewer bytes of its beginning.

    The same member gives the same bytes wherever Python has the same zlib.
    """
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source:
        member.file_size = source.seek(0, os.SEEK_END)
        source.seek(0)
        head = source.read(SAMPLE)
        member.compress_type = zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED
        with archive.open(member, "w") as out:
            if level:
                # A parameter for the strategy is what zipfile lacks.
                strategy = min(STRATEGIES, key=lambda each: len(_deflated(head, each)))
                out._compressor = _compressor(strategy, level)  # type: ignore[attr-defined]
            out.write(head)
            shutil.copyfileobj(source, out, 1 << 20)


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


def _by_member(entries: Iterable[TarEntry], mtime: int) -> Iterator[bytes]:
    """A tar in pieces of at most ``PIECE`` bytes and some, none of which holds two members' content."""
    for entry in entries:
        info = _member(entry)
        info.mtime = mtime
        head, left = info.tobuf(tarfile.PAX_FORMAT), info.size if info.isreg() else 0
        with _content(entry, left) as stream:
            while left > PIECE:
                left -= PIECE
                yield head + stream.read(PIECE)
                head = b""
            yield head + stream.read(left) + bytes(-left % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _content(entry: TarEntry, size: int) -> IO[bytes]:
    if isinstance(entry.source, Path) and size:
        return entry.source.open("rb")
    return io.BytesIO(entry.source if isinstance(entry.source, bytes) else b"")


def _deflated(piece: bytes, strategy: int) -> bytes:
    """Blocks that end at a byte, so that others may follow."""
    compressor = _compressor(strategy)
    return compressor.compress(piece) + compressor.flush(zlib.Z_FULL_FLUSH)


def _compressor(strategy: int, level: int = GZIP_LEVEL) -> "zlib._Compress":
    return zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, GZIP_MEMORY, strategy)


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
