"""ModernBERT's own settings; what every architecture is asked is in test_families.py."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.berts import expected_vectors, onnx_vectors
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError

KIND = "modernbert"


@pytest.mark.parametrize(
    "shape",
    [
        {"norm_bias": True, "attention_bias": True, "mlp_bias": True},
        {"local_attention": 7, "hidden_activation": "gelu_pytorch_tanh"},
        {"layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]},
        {"layer_types": ["full_attention"] * 4},
    ],
    ids=str,
)
def test_settings_are_those_of_transformers(tmp_path: Path, shape: dict[str, Any]) -> None:
    source, model = write_family(tmp_path / "model", KIND, **shape)
    tokens = tokens_of(KIND, lengths=(31, 5, 2, 12))
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    expected = expected_vectors(model, tokens, source.pooling)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("local", [{"local_rope_theta": 500.0}, {"local_rope_theta": None}], ids=str)
def test_the_words_of_older_versions_and_tensors_of_a_masked_model(
    tmp_path: Path, local: dict[str, Any]
) -> None:
    """As on the hub: two bases, one layer of so many is global, names that begin with ``model.``."""
    bases = {"full_attention": 9000.0, "sliding_attention": local["local_rope_theta"] or 9000.0}
    rope = {kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()}
    source, model = write_family(tmp_path / "model", KIND, rope_parameters=rope)
    tokens = tokens_of(KIND)
    expected = expected_vectors(model, tokens, source.pooling)
    assert source.weights is not None
    tensors = load_file(source.weights)
    save_file({f"model.{name}": tensor for name, tensor in tensors.items()}, source.weights)
    new = ("layer_types", "rope_parameters")
    config = {key: value for key, value in source.config.items() if key not in new}
    config |= {"global_attn_every_n_layers": 3, "global_rope_theta": 9000.0, **local}
    exported = export_onnx(replace(source, config=config), tmp_path / "model.onnx")
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"mlp_bias": True}, ModelError, r"mlp_bias is True, model.safetensors has no layers.0.mlp.Wo.bias"),
        ({"layer_types": ["full_attention"]}, ModelError, "each of 4 layers"),
        ({"layer_types": ["chunked_attention"] * 4}, UnsupportedModelError, "layers of chunked_attention"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, UnsupportedModelError, "of type 'yarn'"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 0}}}, ModelError, "rope_theta is 0"),
        ({"num_attention_heads": 32}, ModelError, "heads of 1 numbers"),
        ({"intermediate_size": 40}, ModelError, r"mlp.Wi.weight has shape \[96, 32\]"),
        ({"local_attention": -1}, ModelError, "local_attention is -1"),
        ({"sliding_window": 4}, UnsupportedModelError, "sliding_window 4, which transformers 5 takes"),
        ({"hidden_activation": "snake"}, UnsupportedModelError, "hidden_activation 'snake'"),
    ],
    ids=str,
)
def test_what_contradicts_the_weights_or_is_not_written_is_said(
    tmp_path: Path, changes: dict[str, Any], error: type[EdgepackError], said: str
) -> None:
    source, _ = write_family(tmp_path / "model", KIND)
    with pytest.raises(error, match=said):
        export_onnx(replace(source, config={**source.config, **changes}), tmp_path / "model.onnx")
