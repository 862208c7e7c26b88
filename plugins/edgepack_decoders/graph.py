"""A decoder's layers as an ONNX graph, to the vectors of its tokens: no head that predicts words, no cache.

After transformers' ``modeling_qwen3.py`` and its like. Heads of keys that several of the query share are not copied: the query's
stand beside each other in an axis of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgepack.api import ModelError
from edgepack.api.graphs import (
    GraphWriter,
    Prefixed,
    TensorFile,
    TokenVectors,
    activate,
    additive_mask,
    causal_order,
    count_places,
    local_window,
    prefixed,
    rotary_angles,
    rotated,
)
from edgepack_decoders.settings import Layer, Settings, read_settings

WORDS = "embed_tokens.weight"


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A graph that is being written: where to, from which weights, of what shape."""

    writer: GraphWriter
    tensors: Prefixed
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class Attention:
    """What layers of one kind have in common."""

    angles: tuple[str, str]
    bias: str
    """Added to the scores: what hides padding, tokens that come later, and those that are too far away."""


def write_decoder(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, hidden_size] (``edgepack.api.axes.Architecture``)."""
    settings = read_settings(config)
    decoder = Decoder(
        writer=writer, tensors=prefixed(weights, WORDS, names=("language_model.",)), settings=settings
    )
    _require_biases(decoder)
    words = decoder.tensors.read(WORDS, settings.vocabulary, settings.hidden)
    table = writer.weight(WORDS, words * np.float32(settings.embedding_scale))
    hidden = writer.add("Gather", "embeddings.words", table, "input_ids")
    attentions = _attentions(decoder)
    for number, layer in enumerate(settings.layers):
        hidden = _layer(decoder, f"layers.{number}.", hidden, attentions[layer])
    return TokenVectors(name=_norm(decoder, "norm", hidden))


def _require_biases(decoder: Decoder) -> None:
    for part, wanted in decoder.settings.biases.items():
        name = f"layers.0.{part}.bias"
        if wanted != decoder.tensors.has(name):
            raise ModelError(
                f"config.json asks for {'a' if wanted else 'no'} bias in {part}, "
                f"{decoder.tensors.weights.path.name} has {'none' if wanted else name}",
                hint="config.json and the weights are of different models",
            )


def _attentions(decoder: Decoder) -> dict[Layer, Attention]:
    """Of each kind of layer that there is."""
    writer, settings = decoder.writer, decoder.settings
    places, bias = count_places(writer), additive_mask(writer)
    if settings.causal:
        bias = writer.add("Add", "mask.earlier", causal_order(writer, places), bias)
    found = {}
    for number, layer in enumerate(dict.fromkeys(settings.layers)):
        added = bias
        if layer.reach is not None:
            added = writer.add("Add", "window.masked", local_window(writer, places, layer.reach), bias)
        if settings.key_heads != settings.heads:
            added = writer.add("Unsqueeze", f"mask.{number}.shared", added, writer.ints(2))
        angles = rotary_angles(writer, places, layer.base, settings.head, part=f"rotary.{number}.")
        found[layer] = Attention(angles=angles, bias=added)
    return found


def _layer(decoder: Decoder, part: str, hidden: str, attention: Attention) -> str:
    """Each half takes what was normalised, and is added to what was not."""
    writer, after = decoder.writer, decoder.settings.norms_after
    attended = _attended(
        decoder, f"{part}self_attn.", _norm(decoder, f"{part}input_layernorm", hidden), attention
    )
    if after:
        attended = _norm(decoder, f"{part}post_attention_layernorm", attended)
    middle = writer.add("Add", f"{part}self_attn.residual", attended, hidden)
    before = "pre_feedforward_layernorm" if after else "post_attention_layernorm"
    inner = _feed_forward(decoder, f"{part}mlp.", _norm(decoder, part + before, middle))
    if after:
        inner = _norm(decoder, f"{part}post_feedforward_layernorm", inner)
    return writer.add("Add", f"{part}mlp.residual", inner, middle)


def _attended(decoder: Decoder, part: str, hidden: str, attention: Attention) -> str:
    writer, settings = decoder.writer, decoder.settings
    query = rotated(
        writer,
        f"{part}query",
        _heads(decoder, f"{part}q", hidden, settings.heads),
        attention.angles,
        settings.head,
    )
    key = rotated(
        writer,
        f"{part}key",
        _heads(decoder, f"{part}k", hidden, settings.key_heads),
        attention.angles,
        settings.head,
    )
    value = _heads(decoder, f"{part}v", hidden, settings.key_heads)
    turned = writer.add("Transpose", f"{part}key.turned", key, perm=[0, 1, 3, 2])
    shared = settings.heads // settings.key_heads
    if shared > 1:
        grouped = writer.ints(0, settings.key_heads, shared, -1, settings.head)
        query = writer.add("Reshape", f"{part}query.grouped", query, grouped)
        turned = writer.add("Unsqueeze", f"{part}key.shared", turned, writer.ints(2))
        value = writer.add("Unsqueeze", f"{part}value.shared", value, writer.ints(2))
    scores = writer.add("MatMul", f"{part}scores", query, turned)
    scaled = writer.add("Div", f"{part}scaled", scores, writer.scalar("attention.root", 1 / settings.scale))
    masked = writer.add("Add", f"{part}masked", scaled, attention.bias)
    shares = writer.add("Softmax", f"{part}shares", masked, axis=-1)
    context = writer.add("MatMul", f"{part}context", shares, value)
    order = [0, 3, 1, 2, 4] if shared > 1 else [0, 2, 1, 3]
    beside = writer.add("Transpose", f"{part}turned", context, perm=order)
    wide = settings.heads * settings.head
    merged = writer.add("Reshape", f"{part}merged", beside, writer.ints(0, 0, wide))
    return _linear(decoder, f"{part}o_proj", merged, wide, settings.hidden)


def _heads(decoder: Decoder, name: str, hidden: str, count: int) -> str:
    """[batch, heads, sequence, head], normalised by head where the family does that to query and key."""
    writer, settings = decoder.writer, decoder.settings
    wide = count * settings.head
    projected = _linear(decoder, f"{name}_proj", hidden, settings.hidden, wide)
    split = writer.add("Reshape", f"{name}.split", projected, writer.ints(0, 0, count, settings.head))
    if settings.head_norms and not name.endswith("v"):
        split = _norm(decoder, f"{name}_norm", split, size=settings.head)
    return writer.add("Transpose", f"{name}.heads", split, perm=[0, 2, 1, 3])


def _feed_forward(decoder: Decoder, part: str, hidden: str) -> str:
    """down(activation(gate) · up)."""
    writer, settings = decoder.writer, decoder.settings
    gate = _linear(decoder, f"{part}gate_proj", hidden, settings.hidden, settings.inner)
    up = _linear(decoder, f"{part}up_proj", hidden, settings.hidden, settings.inner)
    if settings.activation == "silu":
        active = writer.add("Mul", f"{part}silu", gate, writer.add("Sigmoid", f"{part}sigmoid", gate))
    else:
        active = activate(writer, settings.activation, part, gate)
    gated = writer.add("Mul", f"{part}gated", active, up)
    return _linear(decoder, f"{part}down_proj", gated, settings.inner, settings.hidden)


def _linear(decoder: Decoder, name: str, vector: str, inputs: int, outputs: int) -> str:
    """vector · weightᵀ, plus a bias where there is one."""
    writer, tensors = decoder.writer, decoder.tensors
    weight = writer.weight(f"{name}.weight", tensors.read(f"{name}.weight", outputs, inputs).T)
    product = writer.add("MatMul", f"{name}.product", vector, weight)
    if not tensors.has(f"{name}.bias"):
        return product
    return writer.add(
        "Add", f"{name}.sum", product, writer.weight(f"{name}.bias", tensors.read(f"{name}.bias", outputs))
    )


def _norm(decoder: Decoder, name: str, vector: str, *, size: int = 0) -> str:
    """RMSNorm: vector / √(mean of squares + ε), times weight, in the nodes that the pass ``fuse`` takes for one."""
    writer, settings = decoder.writer, decoder.settings
    weight = decoder.tensors.read(f"{name}.weight", size or settings.hidden) + np.float32(
        settings.norm_offset
    )
    squares = writer.add("Pow", f"{name}.squares", vector, writer.scalar("norm.two", 2.0))
    mean = writer.add("ReduceMean", f"{name}.mean", squares, axes=[-1], keepdims=1)
    floored = writer.add("Add", f"{name}.floored", mean, writer.scalar("norm.epsilon", settings.epsilon))
    root = writer.add("Sqrt", f"{name}.root", floored)
    inverse = writer.add("Div", f"{name}.inverse", writer.scalar("norm.one", 1.0), root)
    normed = writer.add("Mul", f"{name}.normed", vector, inverse)
    return writer.add("Mul", name, normed, writer.weight(f"{name}.weight", weight))
