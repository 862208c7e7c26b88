"""The second GTE as an ONNX graph: rotary positions, a gated feed-forward part, norms after each half.

After transformers' ``modeling_gte.py``, and ``modeling.py`` of Alibaba-NLP/new-impl, whose layout (``model_type`` "new", one
matrix for query, key and value, and one for both halves of the gate) is read, too. That code leaves padding out of its tensors
where xformers is installed; vectors are the same.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from edgepack.api import ModelError, UnsupportedModelError
from edgepack.api.graphs import (
    Encoder,
    EncoderShape,
    GraphWriter,
    TensorFile,
    TokenVectors,
    activate,
    activation_of,
    add_and_norm,
    additive_mask,
    attend,
    count_places,
    embedding_initializer,
    layer_norm,
    linear,
    matrix,
    open_encoder,
    require_encoder,
    rotary_angles,
    rotary_base,
    rotary_frequencies,
    rotated,
    size_of,
    split_heads,
    word_vectors,
)

WORDS = "embeddings.word_embeddings.weight"
FIXED: Mapping[str, tuple[Any, ...]] = {
    "layer_norm_type": ("layer_norm",),
    "logn_attention_scale": (False, None),
    "position_embedding_type": ("rope", None),
}
"""Settings of the family that are written one way only."""
OWN_LAYOUT = "encoder.layer.0.attn_ln.weight"
EXPORTED = "export the model to ONNX yourself and use the .onnx file"


def write_gte(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, hidden size] (``edgepack.api.axes.Architecture``)."""
    shape = read_shape(config)
    frequencies = read_frequencies(config, shape.head)
    encoder = open_encoder(writer, weights, shape, names=("new.", "gte."))
    hidden = _embeddings(encoder, types=config.get("type_vocab_size", 1) != 0)
    angles = rotary_angles(writer, count_places(writer), frequencies)
    mask = additive_mask(writer)
    write = _own_layer if encoder.tensors.has(OWN_LAYOUT) else _transformers_layer
    for number in range(shape.layers):
        hidden = write(encoder, number, hidden, angles, mask)
    return TokenVectors(name=hidden)


def read_shape(config: Mapping[str, Any]) -> EncoderShape:
    """Check config.json; raises ``ModelError`` or ``UnsupportedModelError``."""
    require_encoder(config)
    for key, written in FIXED.items():
        if config.get(key, written[0]) not in written:
            raise UnsupportedModelError(
                f"config.json: {key} is {config[key]!r}; edgepack supports GTE models with {written[0]!r}",
                hint=EXPORTED,
            )
    return EncoderShape(
        vocabulary=size_of(config, "vocab_size"),
        positions=size_of(config, "max_position_embeddings", 8192),
        types=1 if config.get("type_vocab_size") == 0 else size_of(config, "type_vocab_size", 1),
        hidden=size_of(config, "hidden_size"),
        layers=size_of(config, "num_hidden_layers"),
        heads=size_of(config, "num_attention_heads"),
        inner=size_of(config, "intermediate_size"),
        activation=activation_of(config),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
    )


def read_frequencies(config: Mapping[str, Any], head: int) -> np.ndarray:
    """Frequencies of the rotation; float32 [head / 2]. Raises ``ModelError`` or ``UnsupportedModelError``.

    ``ntk`` is the scaling of GTE's own code: a wider base and, for all places, steps that are a little smaller; with
    ``mixed_b``, each frequency's own share of the scaling (https://kexue.fm/archives/9706).
    """
    scaling = config.get("rope_scaling")
    parameters = config.get("rope_parameters") or {}
    said = scaling or parameters
    kind = said.get("rope_type", said.get("type", "default"))
    default = config.get("rope_theta", 10_000.0 if config.get("model_type") == "new" else 160_000.0)
    if kind not in ("ntk", "linear"):
        return rotary_frequencies(rotary_base(said, default), head)
    base = rotary_base({**said, "rope_type": "default"}, default)
    factor = said.get("factor")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or factor < 1:
        raise ModelError(
            f"config.json: the rotary positions' factor is {factor!r}, expected a number of at least 1",
            hint="get config.json again from where the weights come from",
        )
    if kind == "linear":
        return rotary_frequencies(base, head) / np.float32(factor)
    if (mixed := said.get("mixed_b")) is None:
        return rotary_frequencies(base * factor, head) / np.float32(factor ** (2 / head))
    exponents = np.arange(1, head // 2 + 1, dtype=np.float64) ** float(mixed)
    shares = np.exp(math.log(factor) / (head / 2) ** float(mixed) * exponents)
    mixed_frequencies: np.ndarray = (rotary_frequencies(base, head) / shares).astype(np.float32)
    return mixed_frequencies


def _embeddings(encoder: Encoder, *, types: bool) -> str:
    """Words and, where there are several, types; the one type of most models is no lookup, and is added to their words."""
    writer, shape, tensors = encoder.writer, encoder.shape, encoder.tensors
    if not types:
        summed = word_vectors(encoder)
    elif shape.types == 1:
        only = tensors.read("embeddings.token_type_embeddings.weight", 1, shape.hidden)
        table = writer.weight(WORDS, tensors.read(WORDS, shape.vocabulary, shape.hidden) + only)
        summed = writer.add("Gather", "embeddings.words", table, "input_ids")
    else:
        kinds = embedding_initializer(encoder, "token_type", shape.types)
        added = writer.add("Gather", "embeddings.types", kinds, "token_type_ids")
        summed = writer.add("Add", "embeddings.typed", word_vectors(encoder), added)
    return layer_norm(encoder, "embeddings.LayerNorm", summed)


def _own_layer(encoder: Encoder, number: int, hidden: str, angles: tuple[str, str], mask: str) -> str:
    """A layer in the layout of GTE's own code."""
    shape, tensors, part = encoder.shape, encoder.tensors, f"encoder.layer.{number}."
    attention = f"{part}attention."
    if tensors.has(f"{attention}qkv_proj.weight"):
        joint = _halves(encoder, f"{attention}qkv_proj", 3 * shape.hidden, parts=3)
        projected = [
            _product(encoder, f"{attention}{letter}_proj", hidden, *each)
            for letter, each in zip("qkv", joint, strict=True)
        ]
    else:
        projected = [
            linear(encoder, f"{attention}{letter}_proj", hidden, shape.hidden, shape.hidden)
            for letter in "qkv"
        ]
    attended = _attended(encoder, attention, projected, angles, mask)
    middle = add_and_norm(encoder, part, "attention.o_proj", "attn_ln", attended, hidden)
    up, gate = _halves(encoder, f"{part}mlp.up_gate_proj", 2 * shape.inner, parts=2, biased=False)
    inner = _gated(encoder, f"{part}mlp.", middle, gate[0], up[0])
    return add_and_norm(encoder, part, "mlp.down_proj", "mlp_ln", inner, middle)


def _transformers_layer(
    encoder: Encoder, number: int, hidden: str, angles: tuple[str, str], mask: str
) -> str:
    shape, tensors, part = encoder.shape, encoder.tensors, f"layers.{number}."
    attention = f"{part}self_attn."
    projected = [
        linear(encoder, f"{attention}{letter}_proj", hidden, shape.hidden, shape.hidden) for letter in "qkv"
    ]
    attended = _attended(encoder, attention, projected, angles, mask)
    middle = add_and_norm(encoder, part, "self_attn.o_proj", "post_attention_layernorm", attended, hidden)
    gate, up = (
        tensors.read(f"{part}mlp.{name}_proj.weight", shape.inner, shape.hidden) for name in ("gate", "up")
    )
    inner = _gated(encoder, f"{part}mlp.", middle, gate, up)
    return add_and_norm(encoder, part, "mlp.down_proj", "post_mlp_layernorm", inner, middle)


def _attended(encoder: Encoder, part: str, projected: list[str], angles: tuple[str, str], mask: str) -> str:
    writer, shape = encoder.writer, encoder.shape
    query, key, value = (
        split_heads(encoder, f"{part}{name}", vector, [0, 2, 1, 3])
        for name, vector in zip(("query", "key", "value"), projected, strict=True)
    )
    query, key = (
        rotated(writer, f"{part}{name}", vector, angles, shape.head)
        for name, vector in (("query", query), ("key", key))
    )
    turned = writer.add("Transpose", f"{part}key.turned", key, perm=[0, 1, 3, 2])
    merged = attend(encoder, part, query, turned, value, mask)
    return linear(encoder, f"{part}o_proj", merged, shape.hidden, shape.hidden)


def _gated(encoder: Encoder, part: str, hidden: str, gate: np.ndarray, up: np.ndarray) -> str:
    """down(activation(gate) · up)."""
    writer, shape = encoder.writer, encoder.shape
    active = activate(writer, shape.activation, part, matrix(encoder, f"{part}gate_proj", hidden, gate))
    gated = writer.add("Mul", f"{part}gated", active, matrix(encoder, f"{part}up_proj", hidden, up))
    return linear(encoder, f"{part}down_proj", gated, shape.inner, shape.hidden)


def _halves(
    encoder: Encoder, name: str, outputs: int, *, parts: int, biased: bool = True
) -> list[tuple[np.ndarray, np.ndarray]]:
    """A joint matrix and its bias, in as many parts of the same number of outputs."""
    tensors = encoder.tensors
    matrices = np.split(tensors.read(f"{name}.weight", outputs, encoder.shape.hidden), parts)
    bias = tensors.read(f"{name}.bias", outputs) if biased else np.zeros(outputs, np.float32)
    return list(zip(matrices, np.split(bias, parts), strict=True))


def _product(encoder: Encoder, name: str, vector: str, weight: np.ndarray, bias: np.ndarray) -> str:
    product = matrix(encoder, name, vector, weight)
    return encoder.writer.add("Add", f"{name}.sum", product, encoder.writer.weight(f"{name}.bias", bias))
