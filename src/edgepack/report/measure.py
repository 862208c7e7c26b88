"""What a bundle weighs, part by part, and what its downloads cost."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from edgepack.bundle.manifest import LINK, MANIFEST, PARTS, content_of, digest
from edgepack.context import BuildContext
from edgepack.records import Bundle, PartSize, Report, Verification
from edgepack.report.cost import download_costs, load_prices
from edgepack.report.wire import (
    BROTLI_LARGE,
    BROTLI_LEVEL,
    BROTLI_LEVEL_LARGE,
    GZIP_LEVEL,
    ZSTD_LEVEL,
    WireSize,
    total,
    wire_sizes,
)
from edgepack.store import Store, default_root


def measure(
    bundle: Bundle,
    verification: Verification,
    *,
    prices: Path | None = None,
    context: BuildContext | None = None,
) -> Report:
    """Measure a bundle; ``prices`` is the user's own price table.

    Wire sizes are of each file compressed by itself, as a server sends it: gzip -9, zstd -19, brotli 11 (7 above 4 MB).
    They are kept in the store by content, so that measuring again is quick. The archive, all in one, is smaller.
    """
    table = load_prices(prices)
    parts = _parts(bundle, context)
    archive_bytes = bundle.archive.stat().st_size if bundle.archive else None
    sent = archive_bytes if archive_bytes is not None else sum(part.zstd for part in parts)
    return Report(
        bundle=bundle.name,
        target=str(bundle.manifest["target"]["name"]),
        parts=parts,
        archive_bytes=archive_bytes,
        costs=download_costs(sent, table),
        verification=verification,
        notes=_notes(bundle, verification, has_archive=archive_bytes is not None),
        digest=digest(bundle),
    )


def _parts(bundle: Bundle, context: BuildContext | None) -> tuple[PartSize, ...]:
    manifest = bundle.directory / MANIFEST
    parts: dict[str, list[str]] = {part: [] for part in (*PARTS, "manifest")}
    contents = {content_of(manifest)[1]: manifest}
    parts["manifest"] = list(contents)
    for file in bundle.manifest["files"]:
        if file["mode"] != LINK:
            parts[file["part"]].append(file["sha256"])
            contents[file["sha256"]] = bundle.directory / file["path"]
    sizes = _wire_sizes(contents, context)
    return tuple(
        _part_size(name, [sizes[sha256] for sha256 in files]) for name, files in parts.items() if files
    )


def _wire_sizes(contents: Mapping[str, Path], context: BuildContext | None) -> dict[str, WireSize]:
    if context is None:
        return wire_sizes(contents, store=Store(root=default_root()))
    size = sum(path.stat().st_size for path in contents.values())
    with context.progress("compress by file", size, unit="B") as bar:
        return wire_sizes(contents, store=context.store, advance=bar.advance)


def _part_size(name: str, sizes: list[WireSize]) -> PartSize:
    whole = total(sizes)
    return PartSize(
        name=name, files=len(sizes), raw=whole.raw, gzip=whole.gzip, brotli=whole.brotli, zstd=whole.zstd
    )


def _notes(bundle: Bundle, verification: Verification, *, has_archive: bool) -> tuple[str, ...]:
    sent = "the archive" if has_archive else "all files under zstd"
    brotli = f"brotli {BROTLI_LEVEL} ({BROTLI_LEVEL_LARGE} for files above {BROTLI_LARGE / 1e6:g} MB)"
    arch = bundle.manifest["target"].get("platform", {}).get("arch", platform.machine())
    emulated = verification.texts > 0 and arch != platform.machine()
    return (
        *([f"its vectors were made under an emulator of {arch} on {platform.machine()}"] if emulated else []),
        f"gzip -{GZIP_LEVEL}, {brotli} and zstd -{ZSTD_LEVEL} of each file by itself",
        f"costs: one download of {sent} a device, within one month; list prices of the traffic alone, to be checked",
    )
