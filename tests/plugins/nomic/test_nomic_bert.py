"""NomicBert by the built-in plugin; what every architecture is asked is in tests/unit/models/export/test_families.py."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.support.berts import expected_vectors, onnx_vectors
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx

from edgepack.errors import UnsupportedModelError


def test_nomics_own_layout_and_words_are_read(tmp_path: Path) -> None:
    """As on the hub: one matrix for query, key and value, GPT-2's words in config.json."""
    source, model = write_family(tmp_path / "model", "nomic_bert")
    tokens = tokens_of("nomic_bert")
    expected = expected_vectors(model, tokens, source.pooling)
    assert source.weights is not None
    names = load_file(source.weights).keys()
    assert {"emb_ln.weight", "encoder.layers.1.attn.Wqkv.weight", "encoder.layers.0.mlp.fc12.weight"} <= names
    config = {
        "model_type": "nomic_bert",
        "vocab_size": 60,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": 48,
        "n_positions": 40,
        "type_vocab_size": 2,
        "layer_norm_epsilon": 1e-12,
        "activation_function": "swiglu",
        "rotary_emb_base": 1000,
        "rotary_emb_fraction": 1.0,
        "qkv_proj_bias": False,
    }
    exported = export_onnx(replace(source, config=config), tmp_path / "model.onnx")
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"activation_function": "gelu"}, "asks for gelu with qkv_proj_bias"),
        ({"mlp_fc1_bias": True}, "asks for swiglu with qkv_proj_bias"),
        ({"prenorm": True}, "prenorm is True"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rotary positions of type 'yarn'"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "or scaled ones"),
        ({"rope_parameters": {"rope_theta": 10.0}, "rope_theta": 20}, r"twice, or scaled ones: \[10"),
        ({"is_causal": True}, "describes a decoder"),
    ],
    ids=str,
)
def test_what_is_written_otherwise_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    source, _ = write_family(tmp_path / "model", "nomic_bert")
    with pytest.raises(UnsupportedModelError, match=said):
        export_onnx(replace(source, config={**source.config, **changes}), tmp_path / "model.onnx")
