"""NomicBert with experts (v2-moe). transformers does not have it; ``judge_experts.py`` has a reference."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import save_file
from tests.support.berts import Tokens, onnx_vectors, source_of
from tests.support.experts import CONFIG, expert_shapes
from tests.support.families import tokens_of
from tests.support.installed import export_onnx
from tests.support.recorded import Numbers
from tests.support.tiny import tokenizer_document, write_json

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.export.by_plugin import LARGEST_DIFFERENCE
from edgepack.models.fuse.fusion import fuse, fused_operators
from edgepack.passes.int8_dynamic import int8_dynamic
from edgepack.records.model import ModelSource

HIDDEN, HEADS, INNER, LAYERS, EXPERTS = (
    int(CONFIG[key]) for key in ("n_embd", "n_head", "n_inner", "n_layer", "num_experts")
)

Weights = dict[str, Numbers]


def weights_of(seed: int = 5) -> Weights:
    """Random ones, by the names of the hub."""
    random = np.random.default_rng(seed)
    norms = ("norm1.weight", "norm2.weight", "ln.weight")
    return {
        name: random.normal(float(name.endswith(norms)), 0.3, shape).astype(np.float32)
        for name, shape in expert_shapes().items()
    }


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    folder = tmp_path / "model"
    folder.mkdir()
    save_file(weights_of(), folder / "model.safetensors")
    write_json(folder / "config.json", {**CONFIG, "hidden_size": HIDDEN})
    write_json(folder / "tokenizer.json", tokenizer_document())
    return source_of(folder)


def test_one_token_alone_and_padding(source: ModelSource, tmp_path: Path) -> None:
    """Most experts have nothing to do."""
    exported = export_onnx(source, tmp_path / "model.onnx")
    tokens = tokens_of("bert", lengths=(9, 1, 12, 4))
    alone = Tokens(ids=tokens.ids[1:2, :1], mask=tokens.mask[1:2, :1], types=tokens.types[1:2, :1])
    together = onnx_vectors(exported, tokens)
    np.testing.assert_allclose(onnx_vectors(exported, alone)[0], together[1], atol=LARGEST_DIFFERENCE)


def test_attention_is_fused_and_every_matrix_of_an_expert_quantized(
    source: ModelSource, tmp_path: Path
) -> None:
    notes: list[str] = []
    model = fuse(
        onnx.load(export_onnx(source, tmp_path / "model.onnx")), notes.append, attention="MultiHeadAttention"
    )
    assert notes == []
    assert fused_operators(model)["MultiHeadAttention"] == LAYERS
    small = int8_dynamic(model, notes.append)
    wide = {
        tensor.name for tensor in small.graph.initializer if tensor.data_type == 1 and len(tensor.dims) == 2
    }
    assert {name for name in wide if "mlp" in name} == {
        f"encoder.layers.{layer}.mlp.router.layer.weight" for layer in (1, 3)
    }


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"moe_top_k": 6}, ModelError, "6 of 5 experts"),
        ({"num_experts": None}, ModelError, "num_experts is None"),
        ({"num_experts": 4}, ModelError, r"has shape \[5, 32\]"),
        ({"num_shared_experts": 1}, UnsupportedModelError, "num_shared_experts is 1"),
        ({"expert_choice_router": True}, UnsupportedModelError, "expert_choice_router is True"),
        ({"moe_normalize_expert_weights": 1}, UnsupportedModelError, "moe_normalize_expert_weights is 1"),
        ({"activation_function": "relu6"}, UnsupportedModelError, "'relu6'"),
    ],
    ids=str,
)
def test_what_contradicts_the_weights_or_is_not_written_is_said(
    source: ModelSource, tmp_path: Path, changes: dict[str, Any], error: type[EdgepackError], said: str
) -> None:
    with pytest.raises(error, match=said) as caught:
        export_onnx(replace(source, config={**source.config, **changes}), tmp_path / "model.onnx")
    assert caught.value.message
    assert json.dumps(changes) and not (tmp_path / "model.onnx").exists()
