"""Compressed copies beside the files, for hosts that send what lies there."""

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from edgepack.api import BuildContext

BROTLI, GZIP = ".br", ".gz"
LEVELS = {BROTLI: 11, GZIP: 9}
WINDOW = 24
"""log2 of brotli's largest window that browsers take."""
SMALLEST = 512
"""Bytes below which nothing is gained."""


def write_encoded(folder: Path, paths: Iterable[str], *, context: BuildContext) -> list[str]:
    """``PATH.br`` and ``PATH.gz`` of files in a folder; only where that is smaller. Returns what was written.

    Compressed once for a content, and kept in the store: brotli's best level does a megabyte a second.
    """
    chosen = [path for path in paths if (folder / path).stat().st_size >= SMALLEST]
    total = sum((folder / path).stat().st_size for path in chosen) * len(LEVELS)
    written: list[str] = []
    with (
        context.progress("compress", total, unit="B") as bar,
        ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        jobs = [(path, suffix) for path in chosen for suffix in LEVELS]
        results = pool.map(lambda job: _encoded(folder / job[0], job[1], context), jobs)
        for (path, suffix), content in zip(jobs, results, strict=True):
            size = (folder / path).stat().st_size
            if len(content) < size:
                (folder / (path + suffix)).write_bytes(content)
                written.append(path + suffix)
            bar.advance(size)
    return written


def _encoded(path: Path, suffix: str, context: BuildContext) -> bytes:
    content = path.read_bytes()
    inputs = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "encoding": f"{suffix} {LEVELS[suffix]} {WINDOW}",
    }

    def make(folder: Path) -> None:
        (folder / "content").write_bytes(_compressed(content, suffix))

    def is_right(folder: Path) -> bool:
        return _decoded(folder / "content", suffix, len(content)) == content

    return (context.store.cached("encoded", inputs, make, is_right=is_right) / "content").read_bytes()


def is_copy(file: Path, suffix: str) -> bool:
    """Whether a file is the compressed copy of the one beside it that is called so without the suffix."""
    beside = file.with_name(file.name.removesuffix(suffix))
    return beside.is_file() and _decoded(file, suffix, beside.stat().st_size) == beside.read_bytes()


def _decoded(file: Path, suffix: str, size: int) -> bytes | None:
    """Content of a compressed copy, of at most ``size`` bytes and one; ``None``: it is none."""
    import zlib

    import brotli

    try:
        content = file.read_bytes()
        if suffix == GZIP:
            # One member, and nothing behind it: what follows is sent, too.
            gzip = zlib.decompressobj(wbits=31)
            decoded = gzip.decompress(content, size + 1)
            return decoded if gzip.eof and not gzip.unused_data else None
        decoder = brotli.Decompressor()
        said: bytes = decoder.process(content, output_buffer_limit=size + 1)
        return said if decoder.is_finished() else None
    except (OSError, zlib.error, brotli.error):
        return None


def _compressed(content: bytes, suffix: str) -> bytes:
    if suffix == GZIP:
        import gzip

        return gzip.compress(content, LEVELS[GZIP], mtime=0)
    import brotli

    compressed: bytes = brotli.compress(content, quality=LEVELS[BROTLI], lgwin=WINDOW)
    return compressed
