"""How near two models' vectors are, and what a pass must not say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from tests.unit.models.berts import Tokens, onnx_vectors

Load = Callable[..., onnx.ModelProto]


def unexpected(note: str) -> None:
    raise AssertionError(note)


def cosines(model: onnx.ModelProto, other: onnx.ModelProto, tokens: Tokens) -> np.ndarray:
    """The cosine of every text's vectors."""
    pair = (onnx_vectors(each.SerializeToString(), tokens) for each in (model, other))
    found: np.ndarray = np.prod(list(pair), axis=0).sum(axis=1)
    return found


def alone(tokens: Tokens, row: int, length: int) -> Tokens:
    """One text of a batch, without its padding."""
    return Tokens(
        ids=tokens.ids[row : row + 1, :length],
        mask=tokens.mask[row : row + 1, :length],
        types=tokens.types[row : row + 1, :length],
    )
