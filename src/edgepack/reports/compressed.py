"""What a file weighs compressed, in each of the encodings that servers send."""

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from edgepack.files.frames import CHECKSUM, FRAMES, HUGE, LARGE, LEVEL, frame
from edgepack.files.store import Store

BROTLI_LARGE = 4_000_000
"""Bytes above which brotli's best level is not used. It takes 30 s for MiniLM's int8 weights; level 9 takes 20 s and
gives more bytes than level 7 in 3 s (14.88 against 14.81 MB); for libraries, 7 is within 2 % of 9."""
BROTLI_WINDOW = 24
"""log2 of the largest window that RFC 7932 has, which browsers take."""


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Level of each encoder."""

    gzip: int
    brotli: int
    zstd: int


BEST = Levels(gzip=9, brotli=11, zstd=LEVEL)
LARGER = Levels(gzip=9, brotli=7, zstd=LEVEL)
QUICK = Levels(gzip=6, brotli=6, zstd=12)
"""Above ``HUGE``: NVIDIA's libraries, of 234 and 552 MB. Of 60 MB of one, zstd -19 makes 16.4 MB in 37 s of a processor,
-12 18.1 MB in 3 s; brotli 7 17.8 MB in 5 s, 6 18.0 MB in 2 s; gzip -9 22.46 MB in 7 s, -6 22.52 MB in 3 s."""


@dataclass(frozen=True, kw_only=True)
class CompressedSize:
    """A file compressed by itself, in bytes. Never more than its raw size: a server sends it plain then."""

    raw: int
    gzip: int
    brotli: int
    zstd: int


def levels_for(size: int) -> Levels:
    """Levels of compression for a file of so many bytes."""
    if size > HUGE:
        return QUICK
    return BEST if size <= BROTLI_LARGE else LARGER


def compressed_sizes(
    files: Mapping[str, Path], *, store: Store, advance: Callable[[int], None] | None = None
) -> dict[str, CompressedSize]:
    """The sizes of files, named by the SHA-256 of their content; each content is compressed once per store.

    A compressed copy beside a file (``.br``, ``.gz``) is what a server sends, and is not made again. ``advance`` is told
    the bytes of each file that is done.
    """
    largest_first = sorted(files.items(), key=lambda file: (-file[1].stat().st_size, file[0]))
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as encoders, ThreadPoolExecutor(4) as pool:
        sizes = pool.map(lambda file: _cached(file[0], file[1], store, encoders), largest_first)
        found = {}
        for (sha256, _), size in zip(largest_first, sizes, strict=True):
            found[sha256] = size
            if advance is not None:
                advance(size.raw)
    return found


def total(sizes: Iterable[CompressedSize]) -> CompressedSize:
    """The sum, encoding by encoding."""
    counted = list(sizes)
    return CompressedSize(
        raw=sum(size.raw for size in counted),
        gzip=sum(size.gzip for size in counted),
        brotli=sum(size.brotli for size in counted),
        zstd=sum(size.zstd for size in counted),
    )


def _cached(sha256: str, path: Path, store: Store, encoders: Executor) -> CompressedSize:
    copies = {name: copied(path, suffix) for name, suffix in (("brotli", ".br"), ("gzip", ".gz"))}
    size = path.stat().st_size
    encoded_with = _encoders_for(size)
    inputs = {"sha256": sha256} | {
        name: encoder if copies.get(name) is None else f"copy of {copies[name]}"
        for name, encoder in encoded_with.items()
    }

    def make(folder: Path) -> None:
        content = path.read_bytes()
        zstd = partial(_framed, content, store) if LARGE <= size <= HUGE else partial(_zstd, content)
        sizes = compress(content, encoders, zstd=zstd, brotli=copies["brotli"], gzip=copies["gzip"])
        (folder / "sizes.json").write_text(json.dumps(asdict(sizes)))

    entry = store.cached("wire-sizes", inputs, make)
    return CompressedSize(**json.loads((entry / "sizes.json").read_text()))


def _encoders_for(size: int) -> dict[str, str]:
    """Name → library, version and level: what a file's sizes depend on beside its content."""
    import brotli
    import zstandard

    levels = levels_for(size)
    zstd = ".".join(map(str, zstandard.ZSTD_VERSION))
    return {
        "gzip": f"zlib {zlib.ZLIB_RUNTIME_VERSION} {levels.gzip}",
        "brotli": f"brotli {brotli.__version__} {levels.brotli}/{BROTLI_WINDOW}",
        "zstd": f"zstd {zstd} {FRAMES if LARGE <= size <= HUGE else levels.zstd}",
    }


def copied(path: Path, suffix: str) -> int | None:
    """The size of a compressed copy beside a file."""
    copy = path.with_name(path.name + suffix)
    return copy.stat().st_size if copy.is_file() else None


def compress(
    content: bytes,
    encoders: Executor,
    *,
    zstd: Callable[[], int],
    brotli: int | None = None,
    gzip: int | None = None,
) -> CompressedSize:
    """The sizes of some content in each encoding; the encoders run beside each other and let go of Python's lock.

    ``zstd`` makes that size; ``brotli`` and ``gzip`` are sizes that are known already.
    """
    raw = len(content)
    jobs = {"zstd": encoders.submit(zstd)}
    if brotli is None:
        jobs["brotli"] = encoders.submit(_brotli, content)
    if gzip is None:
        jobs["gzip"] = encoders.submit(_gzip, content)
    found = {"brotli": brotli, "gzip": gzip} | {name: job.result() for name, job in jobs.items()}
    sizes = {name: min(raw, size) for name, size in found.items() if size is not None}
    return CompressedSize(raw=raw, gzip=sizes["gzip"], brotli=sizes["brotli"], zstd=sizes["zstd"])


def _gzip(content: bytes) -> int:
    return len(gzip.compress(content, levels_for(len(content)).gzip, mtime=0))


def _brotli(content: bytes) -> int:
    import brotli

    return len(brotli.compress(content, quality=levels_for(len(content)).brotli, lgwin=BROTLI_WINDOW))


def _zstd(content: bytes) -> int:
    import zstandard

    return len(zstandard.ZstdCompressor(level=levels_for(len(content)).zstd).compress(content))


def _framed(content: bytes, store: Store) -> int:
    """Size as of ``_zstd``, of the frame that the archive has, so that a large file is compressed once."""
    return frame(content, store=store).stat().st_size - CHECKSUM
