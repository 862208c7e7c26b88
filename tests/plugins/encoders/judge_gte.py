"""The second GTE's scaled positions, as its own code has them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.support.berts import onnx_vectors
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx
from tests.support.judges import torch_model, torch_vectors


def scaled(base: float, factor: float, mixed: float | None, head: int) -> Any:
    """Frequencies as NTKScalingRotaryEmbedding of Alibaba-NLP/new-impl has them for its longest text."""
    steps = torch.arange(0, head, 2).float() / head
    if mixed is None:
        return 1.0 / (base * factor) ** steps / factor ** (2 / head)
    share = math.log(factor) / (head / 2) ** mixed
    return 1.0 / base**steps / (share * torch.arange(1, head // 2 + 1).float() ** mixed).exp()


@pytest.mark.parametrize("mixed", [None, 0.625])
def test_the_words_and_scaled_positions_of_gtes_own_code(tmp_path: Path, mixed: float | None) -> None:
    source, judged = write_family(tmp_path / "model", "new")
    model = torch_model(judged)
    tokens = tokens_of("new", lengths=(31, 5, 2, 12))
    unscaled = torch_vectors(model, tokens, source.pooling, types=True)
    model.rotary_emb.inv_freq = scaled(20000.0, 8.0, mixed, 8)
    expected = torch_vectors(model, tokens, source.pooling, types=True)
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
    source, judged = write_family(tmp_path / "model", "gte")
    model = torch_model(judged)
    assert source.weights is not None
    save_file({f"gte.{name}": tensor for name, tensor in model.state_dict().items()}, source.weights)
    tokens = tokens_of("gte")
    expected = torch_vectors(model, tokens, source.pooling)
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)
