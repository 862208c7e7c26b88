"""What a recipe will make of a model, told from the number of its weights before anything is made."""

import math
from collections.abc import Iterator, Sequence
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
"""The best encoder leaves more than this of quantized weights, beside what it leaves of the full ones: 0.88 of int8, 0.9 of few values."""
NORMAL_BITS = math.log2(math.sqrt(2 * math.pi * math.e))
"""Entropy of normally distributed integers of which one is a standard deviation; with n to it, log2(n) more."""
WIDER = 2
"""Fewer bits than that by so many at the most: steps are wider where the vectors mind it least, and those of rare rows."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Sizes in bytes."""

    full: int
    """The weights in float32."""
    made: int
    """What the recipe leaves of them, if it takes all."""
    packed: int
    """About that compressed, rather more."""
    least: int
    """Fewer than that compressed ever so well."""


def expected(source: ModelSource, passes: Sequence[Pass]) -> Expected | None:
    """Sizes to expect of a source and passes; ``None`` where that is not known before."""
    if source.precision != FULL_PRECISION or any(step.name not in BITS for step in passes):
        return None
    files, weights = _weights(source)
    bits = min((BITS[step.name] for step in passes), default=FULL_BITS)
    coded = [coded for step in passes for coded in _coded_bits(step)]
    share = _share_left(files) * weights / 8
    return Expected(
        full=weights * FULL_BITS // 8,
        made=weights * bits // 8,
        packed=int(share * min(bits, max(coded, default=bits))),
        least=int(share * min([bits, *(max(each - WIDER, 0) for each in coded)]) * LEAST),
    )


def _coded_bits(step: Pass) -> Iterator[float]:
    """Bits of a weight of a matrix and of one of a table, where a pass leaves few integers for what is compressed."""
    for name in ("steps", "table_steps"):
        if isinstance(steps := step.parameters.get(name), int | float) and steps > 0:
            yield NORMAL_BITS + math.log2(steps)


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
