"""What a file weighs on the wire, in each of the encodings that servers send."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from edgepack.files.store import Store

BROTLI_LARGE = 4_000_000
"""Bytes above which brotli's best level is not used. It takes 30 s for MiniLM's int8 weights; level 9 takes 20 s and
gives more bytes than level 7 in 3 s (14.88 against 14.81 MB); for libraries, 7 is within 2 % of 9."""
HUGE = 100_000_000
"""Bytes above which all encoders are quick ones: NVIDIA's libraries, of 234 and 552 MB. Of 60 MB of one, zstd -19 makes
16.4 MB in 37 s of a processor, -12 18.1 MB in 3 s; brotli 7 17.8 MB in 5 s, 6 18.0 MB in 2 s; gzip -9 22.46 MB in 7 s,
-6 22.52 MB in 3 s."""
BROTLI_WINDOW = 24
"""log2 of the largest window that RFC 7932 has, which browsers take."""


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Of each encoder."""

    gzip: int
    brotli: int
    zstd: int


BEST = Levels(gzip=9, brotli=11, zstd=19)
LARGER = Levels(gzip=9, brotli=7, zstd=19)
QUICK = Levels(gzip=6, brotli=6, zstd=12)


@dataclass(frozen=True, kw_only=True)
class WireSize:
    """A file compressed by itself, in bytes. Never more than its raw size: a server sends it plain then."""

    raw: int
    gzip: int
    brotli: int
    zstd: int


def levels_for(size: int) -> Levels:
    """What a file of so many bytes is compressed with."""
    if size > HUGE:
        return QUICK
    return BEST if size <= BROTLI_LARGE else LARGER


def wire_sizes(
    files: Mapping[str, Path], *, store: Store, advance: Callable[[int], None] | None = None
) -> dict[str, WireSize]:
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


def total(sizes: Iterable[WireSize]) -> WireSize:
    """The sum, encoding by encoding."""
    counted = list(sizes)
    return WireSize(
        raw=sum(size.raw for size in counted),
        gzip=sum(size.gzip for size in counted),
        brotli=sum(size.brotli for size in counted),
        zstd=sum(size.zstd for size in counted),
    )


def _cached(sha256: str, path: Path, store: Store, encoders: Executor) -> WireSize:
    copies = {name: copied(path, suffix) for name, suffix in (("brotli", ".br"), ("gzip", ".gz"))}
    levels = levels_for(path.stat().st_size)
    inputs = {
        "sha256": sha256,
        "gzip": f"copy of {copies['gzip']}" if copies["gzip"] else str(levels.gzip),
        "brotli": f"copy of {copies['brotli']}" if copies["brotli"] else f"{levels.brotli}/{BROTLI_WINDOW}",
        "zstd": str(levels.zstd),
    }

    def make(folder: Path) -> None:
        known = {name: size for name, size in copies.items() if size is not None}
        sizes = compress(path.read_bytes(), encoders, **known)
        (folder / "sizes.json").write_text(json.dumps(asdict(sizes)))

    entry = store.cached("wire-sizes", inputs, make)
    return WireSize(**json.loads((entry / "sizes.json").read_text()))


def copied(path: Path, suffix: str) -> int | None:
    """The size of a compressed copy beside a file."""
    copy = path.with_name(path.name + suffix)
    return copy.stat().st_size if copy.is_file() else None


def compress(
    content: bytes, encoders: Executor, *, brotli: int | None = None, gzip: int | None = None
) -> WireSize:
    """The sizes of some content in each encoding; the encoders run beside each other and let go of Python's lock.

    ``brotli`` and ``gzip`` are sizes that are known already.
    """
    raw = len(content)
    jobs = {"zstd": encoders.submit(_zstd, content)}
    if brotli is None:
        jobs["brotli"] = encoders.submit(_brotli, content)
    if gzip is None:
        jobs["gzip"] = encoders.submit(_gzip, content)
    found = {"brotli": brotli, "gzip": gzip} | {name: job.result() for name, job in jobs.items()}
    sizes = {name: min(raw, size) for name, size in found.items() if size is not None}
    return WireSize(raw=raw, gzip=sizes["gzip"], brotli=sizes["brotli"], zstd=sizes["zstd"])


def _gzip(content: bytes) -> int:
    return len(gzip.compress(content, levels_for(len(content)).gzip, mtime=0))


def _brotli(content: bytes) -> int:
    import brotli

    return len(brotli.compress(content, quality=levels_for(len(content)).brotli, lgwin=BROTLI_WINDOW))


def _zstd(content: bytes) -> int:
    import zstandard

    return len(zstandard.ZstdCompressor(level=levels_for(len(content)).zstd).compress(content))
