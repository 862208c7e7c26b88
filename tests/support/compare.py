"""A model before and after a pass: small random models, how near their vectors are, and notes that must not come."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgepack.models.fuse.fusion import fuse
from tests.support.berts import Tokens, onnx_vectors, write_bert
from tests.support.installed import export_onnx

Load = Callable[..., onnx.ModelProto]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """A random model, exported, and fused when asked for."""

    def make(*, fused: bool = True, attention: Any = "MultiHeadAttention", **shape: Any) -> onnx.ModelProto:
        source, _ = write_bert(tmp_path / "model", **shape)
        model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
        return fuse(model, unexpected, attention=attention, embeddings=False) if fused else model

    return make


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
