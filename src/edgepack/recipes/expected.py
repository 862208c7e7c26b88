"""What a recipe will make of a model, told from the number of its weights before anything is made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

from edgepack.models.read.safetensors import TensorFile, open_tensors
from edgepack.records.model import FULL_PRECISION, ModelSource
from edgepack.records.target import Pass

FULL_BITS = 32
BITS = {
    **dict.fromkeys(
        ("fuse", "merge-projections", "smooth", "sequence-first", "fast-gelu", "trim"), FULL_BITS
    ),
    **dict.fromkeys(("fp16", "half", "half-fused"), 16),
    **dict.fromkeys(("int8-dynamic", "int8-static", "int8-weights"), 8),
    "int4": 4,
}
"""What a pass leaves of a weight that it takes. Of others, which may take weights away, nothing is foretold."""
UNUSED = ("decoder.", "lm_head.", "cls.")
"""Beginnings of the names of weights that an encoder does without."""
SAMPLES, SAMPLE = 32, 1 << 20
"""Pieces of the weights' files that are compressed to see how much is in them, and bytes of each."""
LEAST = 0.7
"""The best encoder leaves more than this of quantized weights, beside what it leaves of the full ones: 0.88 of int8."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Sizes in bytes."""

    full: int
    """The weights in float32."""
    made: int
    """What the recipe leaves of them, if it takes all."""
    least: int
    """Fewer than that compressed ever so well."""


def expected(source: ModelSource, passes: Sequence[Pass]) -> Expected | None:
    """Sizes to expect of a source and passes; ``None`` where that is not known before."""
    if source.precision != FULL_PRECISION or any(step.name not in BITS for step in passes):
        return None
    files, weights = _weights(source)
    bits = min((BITS[step.name] for step in passes), default=FULL_BITS)
    made = weights * bits // 8
    return Expected(full=weights * FULL_BITS // 8, made=made, least=int(made * LEAST * _share_left(files)))


def _weights(source: ModelSource) -> tuple[tuple[Path, ...], int]:
    """The files that hold the weights, and how many there are."""
    if source.weights is None:
        graphs = [
            each for each in source.files if Path(each.path).suffix not in (".json", ".md", ".safetensors")
        ]
        return tuple(source.directory / each.path for each in graphs), sum(
            each.size for each in graphs
        ) * 8 // FULL_BITS
    found: TensorFile = open_tensors(source.weights)
    counted = [of.shape for name, of in found.tensors.items() if not name.startswith(UNUSED)]
    return tuple(file for file in found.files if file.suffix != ".json"), sum(map(math.prod, counted))


def _share_left(files: Sequence[Path]) -> float:
    """Share that a quick encoder leaves of pieces of the files: little where most weights are zero, or the same."""
    encoder = zstandard.ZstdCompressor(level=1)
    taken = left = 0
    size = sum(file.stat().st_size for file in files)
    step = max(SAMPLE, size // SAMPLES)
    for file in files:
        with file.open("rb") as stream:
            for start in range(0, file.stat().st_size, step):
                stream.seek(start)
                piece = stream.read(SAMPLE)
                taken, left = taken + len(piece), left + len(encoder.compress(piece))
    return left / taken if taken else 0.0
