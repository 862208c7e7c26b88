"""What a reduced runtime for a bundle's model weighs, beside a whole one that is in the bundle."""

from dataclasses import dataclass
from pathlib import Path

import onnx

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError
from edgepack.files.store import sha256_of
from edgepack.foundry.compile.compiled import compiled_archives
from edgepack.foundry.link.reduced_library import reduce_runtime
from edgepack.foundry.releases.registry import RELEASE
from edgepack.models.ort.releases import lacking, stock_release
from edgepack.operators.config import operators_of_ort_model
from edgepack.plugins.context import host_context
from edgepack.records.target import Platform
from edgepack.reports.compressed import compressed_sizes


@dataclass(frozen=True, kw_only=True)
class ReducedSize:
    """A reduced runtime's library, or why it is not known."""

    raw: int = 0
    """Bytes."""
    zstd: int = 0
    reason: str = ""


def reduced_size(model: Path, platform: Platform) -> ReducedSize:
    """Size of the runtime for a model's file, linked if its kernels are compiled on this machine: nothing is fetched or compiled."""
    if model.suffix not in (".onnx", ".ort"):
        return ReducedSize(reason="not compared: the model is in a plugin's own format")
    if model.suffix == ".onnx":
        missing = lacking(onnx.load(str(model), load_external_data=False), stock_release(RELEASE.version))
        if missing:
            return ReducedSize(
                reason=f"none: {RELEASE.version}, which edgepack compiles, lacks {', '.join(missing)}"
            )
        return ReducedSize(reason="not compared: it takes the model in ORT format")
    with host_context(offline=True) as context:
        if f"{platform.arch} minimal" not in compiled_archives(RELEASE, context=context):
            return ReducedSize(reason="not compared: no kernels are compiled on this machine")
        return _linked(model, platform, context)


def _linked(model: Path, platform: Platform, context: BuildContext) -> ReducedSize:
    try:
        library = reduce_runtime(operators_of_ort_model(model), platform=platform, context=context).file
    except EdgepackError as error:
        return ReducedSize(reason=f"none: {error.message}")
    sha256 = sha256_of(library)
    size = compressed_sizes({sha256: library}, store=context.store)[sha256]
    return ReducedSize(raw=size.raw, zstd=size.zstd)
