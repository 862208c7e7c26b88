"""NomicBert with experts (v2-moe). transformers does not have it: the reference is written here, after the description of
nomic-ai/nomic-bert-2048's code and that of vLLM, with PyTorch's own layers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file
from tests.support.berts import Tokens, Vectors, onnx_vectors, source_of
from tests.support.experts import CONFIG, expert_shapes
from tests.support.families import tokens_of
from tests.support.installed import export_onnx
from tests.support.tiny import tokenizer_document, write_json
from torch.nn import functional

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.export.by_plugin import LARGEST_DIFFERENCE
from edgepack.models.fuse.fusion import fuse, fused_operators
from edgepack.passes.int8_dynamic import int8_dynamic
from edgepack.records.model import ModelSource

HIDDEN, HEADS, INNER, LAYERS, EXPERTS = (
    int(CONFIG[key]) for key in ("n_embd", "n_head", "n_inner", "n_layer", "num_experts")
)
Weights = dict[str, torch.Tensor]


def weights_of(seed: int = 5) -> Weights:
    """Random ones, by the names of the hub."""
    random = torch.Generator().manual_seed(seed)
    made = {name: 0.3 * torch.randn(shape, generator=random) for name, shape in expert_shapes().items()}
    return {
        name: values + 1
        if "n" in name and name.endswith(("norm1.weight", "norm2.weight", "ln.weight"))
        else values
        for name, values in made.items()
    }


def reference(weights: Weights, tokens: Tokens) -> Vectors:
    """Means of the tokens' vectors, of length 1."""
    mask = torch.tensor(tokens.mask)
    hidden = weights["embeddings.word_embeddings.weight"][torch.tensor(tokens.ids)]
    hidden = normed(weights, "emb_ln", hidden + weights["embeddings.token_type_embeddings.weight"][0])
    for number in range(LAYERS):
        part = f"encoder.layers.{number}."
        hidden = normed(weights, f"{part}norm1", hidden + attended(weights, f"{part}attn.", hidden, mask))
        made = (
            experts(weights, f"{part}mlp.", hidden) if number % 2 else dense(weights, f"{part}mlp.", hidden)
        )
        hidden = normed(weights, f"{part}norm2", hidden + made)
    kept = mask[..., None].float()
    vectors: Vectors = functional.normalize((hidden * kept).sum(1) / kept.sum(1), dim=1).numpy()
    return vectors


def normed(weights: Weights, name: str, hidden: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(hidden, (HIDDEN,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)


def linear(weights: Weights, name: str, hidden: torch.Tensor) -> torch.Tensor:
    return functional.linear(hidden, weights[f"{name}.weight"], weights[f"{name}.bias"])


def attended(weights: Weights, part: str, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    batch, length, _ = hidden.shape
    joint = linear(weights, f"{part}Wqkv", hidden).view(batch, length, 3, HEADS, HIDDEN // HEADS)
    query, key, value = joint.permute(2, 0, 3, 1, 4)
    half = HIDDEN // HEADS // 2
    angles = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(half) / half)
    cosine, sine = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)

    def rotated(vector: torch.Tensor) -> torch.Tensor:
        first, second = vector.chunk(2, dim=-1)
        return vector * cosine + torch.cat((-second, first), dim=-1) * sine

    shown = functional.scaled_dot_product_attention(
        rotated(query), rotated(key), value, attn_mask=mask[:, None, None].bool()
    )
    return linear(weights, f"{part}out_proj", shown.transpose(1, 2).reshape(batch, length, HIDDEN))


def dense(weights: Weights, part: str, hidden: torch.Tensor) -> torch.Tensor:
    return linear(weights, f"{part}fc2", functional.gelu(linear(weights, f"{part}fc1", hidden)))


def experts(weights: Weights, part: str, hidden: torch.Tensor) -> torch.Tensor:
    """Token by token: the sum of what its two experts make of it, times what the softmax gives each of them, and a bias."""
    inner, outer = (
        weights[f"{part}experts.mlp.{name}"].view(EXPERTS, INNER, HIDDEN) for name in ("w1", "w2")
    )
    rows = []
    for token in hidden.reshape(-1, HIDDEN):
        shares, chosen = (weights[f"{part}router.layer.weight"] @ token).softmax(0).topk(2)
        made = [functional.gelu(inner[each] @ token) @ outer[each] for each in chosen]
        rows.append(shares[0] * made[0] + shares[1] * made[1] + weights[f"{part}experts.bias"])
    return torch.stack(rows).view_as(hidden)


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    folder = tmp_path / "model"
    folder.mkdir()
    save_file(weights_of(), folder / "model.safetensors")
    write_json(folder / "config.json", {**CONFIG, "hidden_size": HIDDEN})
    write_json(folder / "tokenizer.json", tokenizer_document())
    return source_of(folder)


@pytest.mark.slow
def test_vectors_are_those_of_the_description(source: ModelSource, tmp_path: Path) -> None:
    tokens = tokens_of("bert", lengths=(9, 1, 12, 4))
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, reference(weights_of(), tokens), atol=1e-5, rtol=0)


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
