"""What a stock runtime costs: rows of the report, beside the reduced runtime for the same model."""

from collections.abc import Iterable

from edgepack.api import Bundle, Platform, Report
from edgepack.reports.reduced import reduced_size


def price_rows(bundle: Bundle, report: Report) -> Iterable[tuple[str, str]]:
    """Rows of a bundle with the library of a released wheel; none for others."""
    runtime = bundle.manifest["runtime"] or {}
    device = bundle.manifest["target"].get("platform", {})
    if device.get("os") != "linux" or runtime.get("kind") != "stock" or runtime.get("provider"):
        return
    (stock,) = (part for part in report.parts if part.name == "runtime")
    yield f"ONNX Runtime {runtime['version']} as released", _megabytes(stock.raw, stock.zstd)
    platform = Platform(os="linux", arch=device["arch"], glibc=device.get("glibc"))
    reduced = reduced_size(bundle.directory / bundle.manifest["model"]["file"], platform)
    yield "a reduced runtime for this model", reduced.reason or _megabytes(reduced.raw, reduced.zstd)
    if not reduced.reason:
        yield "the stock library costs more", _megabytes(stock.raw - reduced.raw, stock.zstd - reduced.zstd)


def _megabytes(raw: int, zstd: int) -> str:
    return f"{raw / 1e6:.2f} MB, {zstd / 1e6:.2f} MB under zstd"
