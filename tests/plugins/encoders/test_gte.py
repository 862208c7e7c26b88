"""The second GTE by the built-in plugin; what every architecture is asked is in tests/unit/models/export/test_families.py."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.support.berts import change_config, expected_vectors, onnx_vectors
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.fuse.fusion import fuse, fused_operators


@pytest.mark.parametrize("shape", [{"type_vocab_size": 0}, {"hidden_act": "relu"}], ids=str)
def test_settings_are_those_of_transformers(tmp_path: Path, shape: dict[str, Any]) -> None:
    source, model = write_family(tmp_path / "model", "gte", **shape)
    tokens = tokens_of("gte")
    expected = expected_vectors(model, tokens, source.pooling)
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


def test_attention_is_fused(tmp_path: Path) -> None:
    source, _ = write_family(tmp_path / "model", "gte")
    notes: list[str] = []
    fused = fuse(onnx.load(export_onnx(source, tmp_path / "model.onnx")), notes.append)
    assert notes == []
    counts = fused_operators(fused)
    assert counts["MultiHeadAttention"] == 2 and counts["RotaryEmbedding"] == 4


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        (
            {"position_embedding_type": "absolute"},
            UnsupportedModelError,
            "position_embedding_type is 'absolute'",
        ),
        ({"layer_norm_type": "rms_norm"}, UnsupportedModelError, "layer_norm_type is 'rms_norm'"),
        ({"logn_attention_scale": True}, UnsupportedModelError, "logn_attention_scale is True"),
        ({"rope_scaling": {"type": "yarn"}}, UnsupportedModelError, "of type 'yarn'"),
        ({"rope_scaling": {"type": "ntk", "factor": "8"}}, ModelError, "factor is '8'"),
        ({"intermediate_size": 40}, ModelError, r"up_gate_proj.weight has shape \[96, 32\]"),
    ],
    ids=str,
)
def test_what_contradicts_the_weights_or_is_not_written_is_said(
    tmp_path: Path, changes: dict[str, Any], error: type[EdgepackError], said: str
) -> None:
    source, _ = write_family(tmp_path / "model", "new")
    with pytest.raises(error, match=said) as caught:
        export_onnx(change_config(source, **changes), tmp_path / "model.onnx")
    assert caught.value.hint
    assert not (tmp_path / "model.onnx").exists()
