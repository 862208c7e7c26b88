"""A decoder's layers as an ONNX graph, to the vectors of its tokens: no head that predicts words, no cache.

After transformers' ``modeling_qwen3.py`` and its like. Heads of keys and values that several of the query share are repeated, and
heads that are normalised by themselves are merged before they are split: as the pass ``fuse`` looks for both.
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
    rotary_frequencies,
    rotated,
)
from edgepack_decoders.settings import LayerSettings, Settings, read_settings

WORDS = "embed_tokens.weight"


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A graph that is being written: where to, from which weights, of what shape."""

    writer: GraphWriter
    tensors: Prefixed
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Inputs of attention that layers of one kind share."""

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
    rows = decoder.tensors.read(WORDS, settings.vocabulary, settings.hidden)
    table = writer.weight(WORDS, rows * np.float32(settings.embedding_scale))
    words = hidden = writer.add("Gather", "embeddings.words", table, "input_ids")
    attentions = _attentions(decoder)
    given = _layer_inputs(decoder)
    for number, layer in enumerate(settings.layers):
        part = f"layers.{number}."
        hidden = _layer(decoder, part, hidden, layer, attentions[layer])
        if settings.layer_inputs:
            hidden = _with_layer_input(decoder, part, hidden, words, given[number])
    hidden = _norm(decoder, "norm", hidden)
    if settings.projected:
        hidden = _linear(decoder, "embedding_projection", hidden, settings.hidden, settings.projected)
    return TokenVectors(name=hidden, float32_only=settings.float32_only)


def _require_biases(decoder: Decoder) -> None:
    for part, wanted in decoder.settings.biases.items():
        name = f"layers.0.{part}.bias"
        if wanted != decoder.tensors.has(name):
            raise ModelError(
                f"config.json asks for {'a' if wanted else 'no'} bias in {part}, "
                f"{decoder.tensors.weights.path.name} has {'none' if wanted else name}",
                hint="config.json and the weights are of different models",
            )


def _attentions(decoder: Decoder) -> dict[LayerSettings, Attention]:
    """Attention of each kind of layer that there is."""
    writer, settings = decoder.writer, decoder.settings
    places, padding = count_places(writer), additive_mask(writer)
    earlier = causal_order(writer, places) if settings.causal else ""
    found = {}
    for number, layer in enumerate(dict.fromkeys(settings.layers)):
        order = earlier
        if layer.reach is not None:
            order = local_window(writer, places, layer.reach)
            if earlier:
                order = writer.add("Add", "window.earlier", order, earlier)
        added = writer.add("Add", f"mask.{number}", order, padding) if order else padding
        angles = rotary_angles(writer, places, _frequencies(layer), part=f"rotary.{number}.")
        found[layer] = Attention(angles=angles, bias=added)
    return found


def _frequencies(layer: LayerSettings) -> np.ndarray:
    """Frequencies of the rotation; 0 for pairs that are not rotated, which are the last of a head."""
    frequencies = rotary_frequencies(layer.base, layer.head)
    frequencies[int(layer.turned * layer.head // 2) :] = 0
    return frequencies


def _layer_inputs(decoder: Decoder) -> list[np.ndarray]:
    """The matrix [layer_inputs, hidden] of each layer, by which it is given a part of the words; of one stacked matrix."""
    settings = decoder.settings
    if not settings.layer_inputs:
        return []
    count = len(settings.layers)
    name = "ple.per_layer_model_projection.weight"
    stacked = decoder.tensors.read(name, count * settings.layer_inputs, settings.hidden)
    return np.split(stacked * np.float32(settings.hidden**-0.5), count)


def _with_layer_input(decoder: Decoder, part: str, hidden: str, words: str, projection: np.ndarray) -> str:
    """The layer's vector and, beside it, what its gate lets through of the words; all of it times the layer's own number."""
    writer, tensors, settings = decoder.writer, decoder.tensors, decoder.settings
    own, wide = f"{part}ple_block.", settings.layer_inputs
    weight = writer.weight(f"{own}words.weight", projection.T)
    given = writer.add("MatMul", f"{own}words.product", words, weight)
    normed = _norm(
        decoder, f"{own}words.norm", given, size=wide, weight="ple.per_layer_projection_norm.weight"
    )
    gate = _linear(decoder, f"{own}per_layer_input_gate", hidden, settings.hidden, wide)
    active = activate(writer, settings.activation, own, gate)
    gated = writer.add("Mul", f"{own}gated", active, normed)
    back = _linear(decoder, f"{own}per_layer_projection", gated, wide, settings.hidden)
    added = _norm(decoder, f"{own}post_per_layer_input_norm", back)
    summed = writer.add("Add", f"{own}residual", added, hidden)
    return writer.add(
        "Mul",
        f"{part}scaled",
        summed,
        writer.weight(f"{part}layer_scalar", tensors.read(f"{part}layer_scalar", 1)),
    )


def _layer(decoder: Decoder, part: str, hidden: str, layer: LayerSettings, attention: Attention) -> str:
    """Each half takes what was normalised, and is added to what was not."""
    writer, after = decoder.writer, decoder.settings.norms_after
    normed = _norm(decoder, f"{part}input_layernorm", hidden)
    attended = _attended(decoder, f"{part}self_attn.", normed, layer, attention)
    if after:
        attended = _norm(decoder, f"{part}post_attention_layernorm", attended)
    middle = writer.add("Add", f"{part}self_attn.residual", attended, hidden)
    before = "pre_feedforward_layernorm" if after else "post_attention_layernorm"
    inner = _feed_forward(decoder, f"{part}mlp.", _norm(decoder, part + before, middle))
    if after:
        inner = _norm(decoder, f"{part}post_feedforward_layernorm", inner)
    return writer.add("Add", f"{part}mlp.residual", inner, middle)


def _attended(decoder: Decoder, part: str, hidden: str, layer: LayerSettings, attention: Attention) -> str:
    writer, settings, head = decoder.writer, decoder.settings, layer.head
    query = _heads(decoder, f"{part}q", hidden, settings.heads, head)
    key = _heads(decoder, f"{part}k", hidden, layer.key_heads, head)
    value = _heads(decoder, f"{part}v", hidden, layer.key_heads, head)
    query = rotated(writer, f"{part}query", query, attention.angles, head)
    key = rotated(writer, f"{part}key", key, attention.angles, head)
    if layer.key_heads != settings.heads:
        key, value = (
            _repeated(decoder, f"{part}{name}", vector, layer)
            for name, vector in (("key", key), ("value", value))
        )
    turned = writer.add("Transpose", f"{part}key.turned", key, perm=[0, 1, 3, 2])
    scores = writer.add("MatMul", f"{part}scores", query, turned)
    scaled = writer.add("Div", f"{part}scaled", scores, writer.scalar("attention.root", 1 / settings.scale))
    masked = writer.add("Add", f"{part}masked", scaled, attention.bias)
    shares = writer.add("Softmax", f"{part}shares", masked, axis=-1)
    context = writer.add("MatMul", f"{part}context", shares, value)
    beside = writer.add("Transpose", f"{part}turned", context, perm=[0, 2, 1, 3])
    wide = settings.heads * head
    merged = writer.add("Reshape", f"{part}merged", beside, writer.ints(0, 0, wide))
    return _linear(decoder, f"{part}o_proj", merged, wide, settings.hidden)


def _repeated(decoder: Decoder, name: str, vector: str, layer: LayerSettings) -> str:
    """[batch, key heads, sequence, head] → [batch, heads, sequence, head], each as often as it is shared."""
    writer, heads = decoder.writer, decoder.settings.heads
    column = writer.add("Unsqueeze", f"{name}.column", vector, writer.ints(2))
    many = writer.add("Expand", f"{name}.many", column, writer.ints(1, 1, heads // layer.key_heads, 1, 1))
    return writer.add("Reshape", f"{name}.repeated", many, writer.ints(0, heads, -1, layer.head))


def _heads(decoder: Decoder, name: str, hidden: str, count: int, head: int) -> str:
    """[batch, heads, sequence, head], normalised by head where the family does that."""
    writer, settings = decoder.writer, decoder.settings
    projected = _linear(decoder, f"{name}_proj", hidden, settings.hidden, count * head)
    sizes = writer.ints(0, 0, count, head)
    if settings.value_norms or (settings.head_norms and not name.endswith("v")):
        single = writer.add("Reshape", f"{name}.single", projected, sizes)
        if name.endswith("v"):
            ones = writer.weight(f"norm.ones_{head}", np.ones(head, np.float32))
            normed = _normed(decoder, f"{name}_norm", single, ones)
        else:
            normed = _norm(decoder, f"{name}_norm", single, size=head)
        projected = writer.add("Reshape", f"{name}.merged", normed, writer.ints(0, 0, count * head))
    split = writer.add("Reshape", f"{name}.split", projected, sizes)
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


def _norm(decoder: Decoder, name: str, vector: str, *, size: int = 0, weight: str = "") -> str:
    """RMSNorm with the model's weights."""
    read = weight or f"{name}.weight"
    factors = decoder.tensors.read(read, size or decoder.settings.hidden)
    factors = factors + np.float32(decoder.settings.norm_offset)
    return _normed(decoder, name, vector, decoder.writer.weight(read, factors))


def _normed(decoder: Decoder, name: str, vector: str, weight: str) -> str:
    """vector / √(mean of squares + ε) · weight, in the nodes that the pass ``fuse`` takes for one."""
    writer = decoder.writer
    squares = writer.add("Pow", f"{name}.squares", vector, writer.scalar("norm.two", 2.0))
    mean = writer.add("ReduceMean", f"{name}.mean", squares, axes=[-1], keepdims=1)
    epsilon = writer.scalar("norm.epsilon", decoder.settings.epsilon)
    root = writer.add("Sqrt", f"{name}.root", writer.add("Add", f"{name}.floored", mean, epsilon))
    inverse = writer.add("Div", f"{name}.inverse", writer.scalar("norm.one", 1.0), root)
    return writer.add("Mul", name, writer.add("Mul", f"{name}.normed", vector, inverse), weight)
