"""Small random models, exported and fused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.unit.models.berts import write_bert
from tests.unit.recipes.near import Load, unexpected

from edgepack.models.export.from_source import export_onnx
from edgepack.models.fuse.fusion import fuse


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """A random model, exported, and fused when asked for."""

    def make(*, fused: bool = True, attention: Any = "MultiHeadAttention", **shape: Any) -> onnx.ModelProto:
        source, _ = write_bert(tmp_path / "model", **shape)
        model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
        return fuse(model, unexpected, attention=attention, embeddings=False) if fused else model

    return make
