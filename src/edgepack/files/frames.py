"""Frames of zstd: content is compressed once, and what came of it is kept in the store."""

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from edgepack.files.pack import JOB, SHORT_TABLES
from edgepack.files.store import Store, sha256_of

LEVEL = 19
LARGE = 1 << 23
"""Bytes from which a file in an archive is a frame of its own: as many as the window of this level. Smaller ones shrink better
together."""
HUGE = 100_000_000
"""Bytes above which all cores work on one frame, a job each. Its size is not that of one core's frame."""
HUGE_WINDOW = 27
"""2^27 bytes: what zstd and tar --zstd unpack without being asked to (``--long``)."""
CHECKSUM = 4
"""Bytes at a frame's end that servers do not send."""
PIECES, PIECE = 4, 1 << 19
"""How many pieces of how many bytes, evenly spread, tell how the whole of a large file is compressed."""
WAYS: tuple[dict[str, int], ...] = (
    {"strategy": 2, "min_match": 7, "hash_log": 12, "chain_log": 12},
    {"min_match": 5, "hash_log": 10, "chain_log": 10, "window_log": 17},
    SHORT_TABLES,
    {},
)
"""How a large file may be compressed: ``LEVEL`` but for what is named here; the quickest first, in a 200th, a 20th and a tenth of the time.
Quantized weights repeat nothing. What a long search finds are matches by chance, which cost more than the bytes that they stand
for: without them all-MiniLM-L6-v2 as ``int8-download`` is 1.1 % smaller, 0.3 % above the entropy of its bytes. With fewer values still, shorter tables find what is worth its place."""
SLACK = 1.002
"""How much larger the quicker way may be."""
FRAMES = f"{LEVEL} {WAYS} {SLACK} {PIECES} {PIECE}"
"""Part of the key of what is kept: a change of any of this is another frame."""


def frame(content: Path | bytes, *, store: Store, advance: Callable[[int], None] = lambda size: None) -> Path:
    """A file's content, or some, as one frame at ``LEVEL`` with a checksum: a file in the store.

    Of large content a sample is compressed in all ``WAYS``, and the whole in the one that makes least of it.
    ``advance`` is told all bytes of the content, at once or as they are compressed. Two processes do not compress the
    same at the same time.
    """
    import zstandard

    size = content.stat().st_size if isinstance(content, Path) else len(content)
    sha256 = sha256_of(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()
    version = ".".join(map(str, zstandard.ZSTD_VERSION))
    jobs = f" window {HUGE_WINDOW} jobs {JOB}" if size > HUGE else ""
    told = 0

    def tell(more: int) -> None:
        nonlocal told
        told += more
        advance(more)

    def make(folder: Path) -> None:
        with (folder / "frame.zst").open("wb") as out:
            if size <= HUGE:
                out.write(compress(content.read_bytes() if isinstance(content, Path) else content))
            else:
                _by_all_cores(content, size, out, tell)

    read = {"sha256": content} if isinstance(content, Path) else {}
    made = store.cached(
        "zstd-frame",
        {"sha256": sha256, "zstd": f"{version} {FRAMES if size >= LARGE else LEVEL}{jobs}"},
        make,
        files=read,
        is_right=lambda folder: _is_of(folder / "frame.zst", size, sha256),
    )
    advance(size - told)
    return made / "frame.zst"


def _is_of(file: Path, size: int, sha256: str) -> bool:
    """Whether a frame is of this content; what it unpacks to is not kept, and not read beyond the size."""
    import zstandard

    digest, found = hashlib.sha256(), 0
    try:
        with (
            file.open("rb") as stream,
            zstandard.ZstdDecompressor(max_window_size=1 << HUGE_WINDOW).stream_reader(
                stream, read_across_frames=True
            ) as reader,
        ):
            while found <= size and (chunk := reader.read(1 << 20)):
                found += len(chunk)
                digest.update(chunk)
    except (OSError, zstandard.ZstdError):
        return False
    return found == size and digest.hexdigest() == sha256


def compress(content: bytes) -> bytes:
    """Content as one frame, by one core."""
    import zstandard

    if way := _way(content, len(content)):
        parameters = zstandard.ZstdCompressionParameters.from_level(LEVEL, write_checksum=True, **way)
        return zstandard.ZstdCompressor(compression_params=parameters).compress(content)
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(content)


def _by_all_cores(content: Path | bytes, size: int, out: IO[bytes], advance: Callable[[int], None]) -> None:
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL,
        window_log=HUGE_WINDOW,
        threads=os.cpu_count() or 1,
        job_size=JOB,
        overlap_log=9,  # jobs see a whole window of what came before: one job's ratio to 0.05 %
        write_checksum=True,
        **_way(content, size),
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with (
        io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source,
        compressor.stream_writer(out, size=size, closefd=False) as stream,
    ):
        while chunk := source.read(1 << 20):
            stream.write(chunk)
            advance(len(chunk))


def _sample(content: Path | bytes, size: int) -> bytes:
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as stream:
        pieces = []
        for number in range(PIECES):
            stream.seek(max(0, size * (2 * number + 1) // (2 * PIECES) - PIECE // 2))
            pieces.append(stream.read(PIECE))
    return b"".join(pieces)


def _way(content: Path | bytes, size: int) -> dict[str, int]:
    """Quickest of ``WAYS`` that makes about as little of a sample as any."""
    import zstandard

    if size < LARGE:
        return {}
    sample, sizes = _sample(content, size), []
    for way in WAYS:
        parameters = zstandard.ZstdCompressionParameters.from_level(LEVEL, **way)
        sizes.append(len(zstandard.ZstdCompressor(compression_params=parameters).compress(sample)))
    return next(way for way, made in zip(WAYS, sizes, strict=True) if made <= SLACK * min(sizes))
