"""DeBERTa v2 and v3 by the built-in plugin; what every architecture is asked is in tests/unit/models/export/test_families.py."""

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


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "shape",
    [
        {"pos_att_type": ["c2p"], "share_att_key": False},
        {"pos_att_type": ["p2c"], "share_att_key": False, "norm_rel_ebd": "none"},
        {"pos_att_type": ["p2c", "c2p"], "share_att_key": False, "position_buckets": -1},
        {"position_buckets": -1, "max_relative_positions": 6},
        {"position_biased_input": True, "type_vocab_size": 2, "embedding_size": 20},
        {"conv_kernel_size": 3, "conv_act": "gelu"},
        {"conv_kernel_size": 5, "conv_act": "tanh"},
    ],
    ids=str,
)
def test_settings_are_those_of_transformers(tmp_path: Path, shape: dict[str, Any]) -> None:
    source, model = write_family(tmp_path / "model", "deberta-v2", **shape)
    tokens = tokens_of("deberta-v2", lengths=(31, 5, 2, 12))
    expected = expected_vectors(model, tokens, source.pooling)
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


def test_attention_is_fused(tmp_path: Path) -> None:
    source, _ = write_family(tmp_path / "model", "deberta-v2")
    notes: list[str] = []
    fused = fuse(onnx.load(export_onnx(source, tmp_path / "model.onnx")), notes.append)
    assert notes == []
    assert fused_operators(fused)["MultiHeadAttention"] == 2


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"relative_attention": False}, UnsupportedModelError, "relative_attention is not set"),
        ({"pos_att_type": "p2p|c2p"}, UnsupportedModelError, "pos_att_type is 'p2p|c2p'"),
        ({"pos_att_type": None}, UnsupportedModelError, r"pos_att_type is \[\]"),
        ({"attention_head_size": 16}, UnsupportedModelError, "attention_head_size is 16"),
        ({"conv_kernel_size": 4}, UnsupportedModelError, "1 groups and width 4"),
        ({"conv_kernel_size": 3, "conv_groups": 2}, UnsupportedModelError, "2 groups and width 3"),
        ({"conv_kernel_size": 3}, ModelError, "no tensor encoder.conv.conv.weight"),
        ({"position_buckets": 16}, ModelError, r"has shape \[16, 32\]"),
        ({"position_buckets": 200}, ModelError, "200 position_buckets cannot hold distances up to 40"),
    ],
    ids=str,
)
def test_what_contradicts_the_weights_or_is_not_written_is_said(
    tmp_path: Path, changes: dict[str, Any], error: type[EdgepackError], said: str
) -> None:
    source, _ = write_family(tmp_path / "model", "deberta-v2")
    with pytest.raises(error, match=said.replace("|", r"\|")) as caught:
        export_onnx(change_config(source, **changes), tmp_path / "model.onnx")
    assert caught.value.hint
