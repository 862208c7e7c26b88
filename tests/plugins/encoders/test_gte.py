"""The second GTE by the built-in plugin; what every architecture is asked is in tests/unit/models/export/test_families.py."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file
from tests.support.berts import change_config, onnx_vectors
from tests.support.families import expected_vectors, tokens_of, write_family
from tests.support.installed import export_onnx

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.fuse.fusion import fuse, fused_operators


@pytest.mark.parametrize("shape", [{"type_vocab_size": 0}, {"hidden_act": "relu"}], ids=str)
def test_settings_are_those_of_transformers(tmp_path: Path, shape: dict[str, Any]) -> None:
    source, model = write_family(tmp_path / "model", "gte", **shape)
    tokens = tokens_of("gte")
    expected = expected_vectors(model, tokens, source.pooling, types=False)
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


def scaled(base: float, factor: float, mixed: float | None, head: int) -> Any:
    """Frequencies as NTKScalingRotaryEmbedding of Alibaba-NLP/new-impl has them for its longest text."""
    steps = torch.arange(0, head, 2).float() / head
    if mixed is None:
        return 1.0 / (base * factor) ** steps / factor ** (2 / head)
    share = math.log(factor) / (head / 2) ** mixed
    return 1.0 / base**steps / (share * torch.arange(1, head // 2 + 1).float() ** mixed).exp()


@pytest.mark.parametrize("mixed", [None, 0.625])
def test_the_words_and_scaled_positions_of_gtes_own_code(tmp_path: Path, mixed: float | None) -> None:
    source, model = write_family(tmp_path / "model", "new")
    tokens = tokens_of("new", lengths=(31, 5, 2, 12))
    unscaled = expected_vectors(model, tokens, source.pooling, types=True)
    model.rotary_emb.inv_freq = scaled(20000.0, 8.0, mixed, 8)
    expected = expected_vectors(model, tokens, source.pooling, types=True)
    assert np.abs(expected - unscaled).max() > 1e-3
    config = {key: value for key, value in source.config.items() if key != "rope_parameters"}
    config |= {
        "rope_theta": 20000,
        "rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": mixed},
        "layer_norm_type": "layer_norm",
        "logn_attention_scale": False,
        "position_embedding_type": "rope",
        "pack_qkv": True,
    }
    exported = export_onnx(replace(source, config=config), tmp_path / "model.onnx")
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)


def test_the_layout_of_transformers_own_modules(tmp_path: Path) -> None:
    source, model = write_family(tmp_path / "model", "gte")
    assert source.weights is not None
    save_file({f"gte.{name}": tensor for name, tensor in model.state_dict().items()}, source.weights)
    tokens = tokens_of("gte")
    expected = expected_vectors(model, tokens, source.pooling, types=False)
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
