"""NomicBert with experts (v2-moe). transformers does not have it: the reference is written here, after the description of
nomic-ai/nomic-bert-2048's code and that of vLLM, with PyTorch's own layers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from tests.plugins.nomic.test_experts import EXPERTS, HEADS, HIDDEN, INNER, LAYERS, weights_of
from tests.support.berts import Tokens, Vectors, onnx_vectors, source_of
from tests.support.experts import CONFIG
from tests.support.families import tokens_of
from tests.support.installed import export_onnx
from tests.support.tiny import tokenizer_document, write_json
from torch.nn import functional

from edgepack.records.model import ModelSource

Weights = dict[str, torch.Tensor]


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


def test_vectors_are_those_of_the_description(source: ModelSource, tmp_path: Path) -> None:
    tokens = tokens_of("bert", lengths=(9, 1, 12, 4))
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(
        vectors,
        reference({name: torch.tensor(each) for name, each in weights_of().items()}, tokens),
        atol=1e-5,
        rtol=0,
    )
