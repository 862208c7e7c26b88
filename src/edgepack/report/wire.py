"""What a file weighs on the wire, in each of the encodings that servers send."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from edgepack.store import Store

GZIP_LEVEL = 9
ZSTD_LEVEL = 19
BROTLI_LEVEL = 11
BROTLI_LEVEL_LARGE = 9
BROTLI_LARGE = 4_000_000
"""Bytes above which brotli's best level takes minutes and is not used; servers do not use it there either."""
BROTLI_WINDOW = 24
"""log2 of the largest window that RFC 7932 has, which browsers take."""


@dataclass(frozen=True, kw_only=True)
class WireSize:
    """A file compressed by itself, in bytes. Never more than its raw size: a server sends it plain then."""

    raw: int
    gzip: int
    brotli: int
    zstd: int


def brotli_level(size: int) -> int:
    """11, or 9 for large files."""
    return BROTLI_LEVEL if size <= BROTLI_LARGE else BROTLI_LEVEL_LARGE


def wire_sizes(files: Mapping[str, Path], *, store: Store) -> dict[str, WireSize]:
    """The sizes of files, named by the SHA-256 of their content; each content is compressed once per store."""
    largest_first = sorted(files.items(), key=lambda file: -file[1].stat().st_size)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        sizes = pool.map(lambda file: _cached(file[0], file[1], store), largest_first)
        return dict(zip((sha256 for sha256, _ in largest_first), sizes, strict=True))


def total(sizes: Iterable[WireSize]) -> WireSize:
    """The sum, encoding by encoding."""
    counted = list(sizes)
    return WireSize(
        raw=sum(size.raw for size in counted),
        gzip=sum(size.gzip for size in counted),
        brotli=sum(size.brotli for size in counted),
        zstd=sum(size.zstd for size in counted),
    )


def _cached(sha256: str, path: Path, store: Store) -> WireSize:
    level = brotli_level(path.stat().st_size)
    inputs = {
        "sha256": sha256,
        "gzip": str(GZIP_LEVEL),
        "brotli": f"{level}/{BROTLI_WINDOW}",
        "zstd": str(ZSTD_LEVEL),
    }

    def make(folder: Path) -> None:
        (folder / "sizes.json").write_text(json.dumps(asdict(compress(path.read_bytes()))))

    entry = store.cached("wire-sizes", inputs, make)
    return WireSize(**json.loads((entry / "sizes.json").read_text()))


def compress(content: bytes) -> WireSize:
    """The sizes of some content in each encoding."""
    import brotli
    import zstandard

    raw = len(content)
    return WireSize(
        raw=raw,
        gzip=min(raw, len(gzip.compress(content, GZIP_LEVEL, mtime=0))),
        brotli=min(raw, len(brotli.compress(content, quality=brotli_level(raw), lgwin=BROTLI_WINDOW))),
        zstd=min(raw, len(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(content))),
    )
