"""Fewer numbers a vector, where the model was trained so that its first ones say the most (Matryoshka representation).

https://arxiv.org/abs/2205.13147
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from ..base.bundle import Bundle
from ..base.errors import UsageError


class MatryoshkaTruncation:
    """The first ``dimension`` numbers of a vector, at length 1. Raises ``UsageError`` where that is invalid."""

    def __init__(self, bundle: Bundle, dimension: int) -> None:
        trained = bundle.matryoshka
        if trained is None:
            raise UsageError(
                f"{dimension} dimensions: {bundle.value('model', 'name')} does not support shorter vectors",
                f"it has no Matryoshka training; its vectors have {bundle.dimension} numbers",
            )
        allowed = sorted({*trained["dimensions"], bundle.dimension})
        if dimension not in allowed:
            raise UsageError(
                f"{dimension} dimensions: {bundle.value('model', 'name')} does not support that dimension",
                f"it supports {', '.join(map(str, allowed))}",
            )
        self.dimension = dimension
        # nomic-embed-text-v1.5 was trained with a layer normalisation before the cut; its scale goes in the division.
        self._center = bool(trained["layer_norm"])

    def __call__(self, vector: array[float]) -> array[float]:
        mean = math.fsum(vector) / len(vector) if self._center else 0.0
        first = [x - mean for x in vector[: self.dimension]]
        return normalized(first)


def normalized(numbers: Sequence[float]) -> array[float]:
    length = math.sqrt(math.fsum(x * x for x in numbers))
    return array("f", [x / length for x in numbers] if length else numbers)
