"""BertModel as an ONNX graph, written straight from config.json and model.safetensors.

The nodes stand in the order and with the operators that PyTorch's exporter gave BERT, because that is the shape which
onnxruntime.transformers' fusions look for (EmbedLayerNormalization, Attention, SkipLayerNormalization, BiasGelu).
After transformers' ``modeling_bert.py``; MiniLM, BGE, E5 and GTE (the first generation) are all this architecture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.graph_writer import GraphWriter, finish
from edgepack.models.pooling import pool
from edgepack.models.tensors import Array, TensorFile, missing_tensor
from edgepack.records import Pooling

WORD_TABLE = "embeddings.word_embeddings.weight"
PREFIXES = ("", "bert.", "model.", "0.auto_model.", "auto_model.")
MASKED = float(np.finfo(np.float32).min)
"""What is added to the scores of padding, as in transformers."""


@dataclass(frozen=True, kw_only=True)
class BertShape:
    """What the graph is made after: config.json, checked."""

    vocabulary: int
    positions: int
    types: int
    hidden: int
    layers: int
    heads: int
    inner: int
    activation: str
    epsilon: float


def read_shape(config: Mapping[str, Any]) -> BertShape:
    """Check config.json of a BertModel; raises ``ModelError`` or ``UnsupportedModelError``."""
    position = config.get("position_embedding_type") or "absolute"
    if position != "absolute":
        raise UnsupportedModelError(
            f"config.json asks for {position} position embeddings; edgepack writes absolute ones",
            hint="export the model to ONNX yourself and give edgepack the .onnx file",
        )
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise UnsupportedModelError("config.json describes a decoder; edgepack takes encoders")
    shape = BertShape(
        vocabulary=_size(config, "vocab_size"),
        positions=_size(config, "max_position_embeddings"),
        types=_size(config, "type_vocab_size", 2),
        hidden=_size(config, "hidden_size"),
        layers=_size(config, "num_hidden_layers"),
        heads=_size(config, "num_attention_heads"),
        inner=_size(config, "intermediate_size"),
        activation=_activation(config),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
    )
    if shape.hidden % shape.heads:
        raise ModelError(
            f"config.json: hidden_size {shape.hidden} is no multiple of num_attention_heads {shape.heads}"
        )
    return shape


def _size(config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ModelError(f"config.json: {key} is {value!r}, not a positive number")
    return value


def _activation(config: Mapping[str, Any]) -> str:
    name = config.get("hidden_act", "gelu")
    if name not in ACTIVATIONS:
        raise UnsupportedModelError(
            f"config.json: hidden_act {name!r} is not supported",
            hint=f"supported are {', '.join(sorted(ACTIVATIONS))}",
        )
    return str(name)


def write_bert(
    config: Mapping[str, Any], weights: TensorFile, *, name: str, pooling: Pooling, dimension: int
) -> onnx.ModelProto:
    """The model, pooling and normalisation included; ``sentence_embedding`` is float32 [batch, hidden_size]."""
    shape = read_shape(config)
    if dimension != shape.hidden:
        raise ModelError(f"the model's vectors have {shape.hidden} dimensions, {dimension} were announced")
    tensors = Prefixed(weights=weights, prefix=_find_prefix(weights))
    writer = GraphWriter()
    hidden = _embeddings(writer, tensors, shape)
    mask = _mask(writer)
    for layer in range(shape.layers):
        part = f"encoder.layer.{layer}."
        attended = _attention(writer, tensors, shape, part + "attention.", hidden, mask)
        hidden = _feed_forward(writer, tensors, shape, part, attended)
    pool(writer, hidden, "attention_mask", pooling)
    return finish(writer, name=name, dimension=dimension)


@dataclass(frozen=True, kw_only=True)
class Prefixed:
    """Weights whose names all begin alike, e.g. with ``bert.``."""

    weights: TensorFile
    prefix: str

    def read(self, name: str, *shape: int) -> Array:
        """A tensor; LayerNorm's ``weight`` and ``bias`` may be called ``gamma`` and ``beta``, as TensorFlow did."""
        full = self.prefix + name
        if full not in self.weights.tensors:
            old = full.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
            full = old if old in self.weights.tensors else full
        return self.weights.read(full, shape)


def _find_prefix(weights: TensorFile) -> str:
    for prefix in PREFIXES:
        if prefix + WORD_TABLE in weights.tensors:
            return prefix
    raise missing_tensor(weights.path, WORD_TABLE)


def _embeddings(writer: GraphWriter, tensors: Prefixed, shape: BertShape) -> str:
    def table(kind: str, rows: int) -> str:
        name = f"embeddings.{kind}_embeddings.weight"
        return writer.weight(name, tensors.read(name, rows, shape.hidden))

    words = writer.add("Gather", "embeddings.words", table("word", shape.vocabulary), "input_ids")
    types = writer.add("Gather", "embeddings.types", table("token_type", shape.types), "token_type_ids")
    positions = writer.add(
        "Gather",
        "embeddings.positions",
        table("position", shape.positions),
        _position_ids(writer, shape.positions),
    )
    typed = writer.add("Add", "embeddings.typed", words, types)
    placed = writer.add("Add", "embeddings.placed", typed, positions)
    return _layer_norm(writer, tensors, shape, "embeddings.LayerNorm", placed)


def _position_ids(writer: GraphWriter, positions: int) -> str:
    """int64 [1, sequence]: 0, 1, 2, … cut from a constant, as EmbedLayerNormalization's fusion expects it."""
    size = writer.add("Shape", "sequence.shape", "input_ids")
    length = writer.add("Gather", "sequence.length", size, writer.index(1), axis=0)
    end = writer.add("Unsqueeze", "sequence.end", length, writer.ints(0))
    every = writer.weight("position_ids", np.arange(positions, dtype=np.int64)[None, :])
    return writer.add(
        "Slice", "sequence.positions", every, writer.ints(0), end, writer.ints(1), writer.ints(1)
    )


def _mask(writer: GraphWriter) -> str:
    """float32 [batch, 1, 1, sequence]: 0 for tokens, a large negative number for padding."""
    rows = writer.add("Unsqueeze", "mask.rows", "attention_mask", writer.ints(1))
    cells = writer.add("Unsqueeze", "mask.cells", rows, writer.ints(2))
    kept = writer.add("Cast", "mask.kept", cells, to=TensorProto.FLOAT)
    dropped = writer.add("Sub", "mask.dropped", writer.scalar("mask.one", 1.0), kept)
    return writer.add("Mul", "mask.additive", dropped, writer.scalar("mask.value", MASKED))


def _attention(
    writer: GraphWriter, tensors: Prefixed, shape: BertShape, part: str, hidden: str, mask: str
) -> str:
    def heads(kind: str, order: list[int]) -> str:
        name = f"{part}self.{kind}"
        projected = _linear(writer, tensors, name, hidden, shape.hidden, shape.hidden)
        size = shape.hidden // shape.heads
        split = writer.add("Reshape", f"{name}.split", projected, writer.ints(0, 0, shape.heads, size))
        return writer.add("Transpose", f"{name}.heads", split, perm=order)

    query, key, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
    product = writer.add("MatMul", f"{part}scores", query, key)
    root = writer.scalar("attention.root", math.sqrt(shape.hidden // shape.heads))
    scaled = writer.add("Div", f"{part}scaled", product, root)
    masked = writer.add("Add", f"{part}masked", scaled, mask)
    shares = writer.add("Softmax", f"{part}shares", masked, axis=-1)
    context = writer.add("MatMul", f"{part}context", shares, value)
    turned = writer.add("Transpose", f"{part}turned", context, perm=[0, 2, 1, 3])
    merged = writer.add("Reshape", f"{part}merged", turned, writer.ints(0, 0, shape.hidden))
    dense = _linear(writer, tensors, f"{part}output.dense", merged, shape.hidden, shape.hidden)
    added = writer.add("Add", f"{part}output.residual", dense, hidden)
    return _layer_norm(writer, tensors, shape, f"{part}output.LayerNorm", added)


def _feed_forward(writer: GraphWriter, tensors: Prefixed, shape: BertShape, part: str, hidden: str) -> str:
    inner = _linear(writer, tensors, f"{part}intermediate.dense", hidden, shape.hidden, shape.inner)
    active = ACTIVATIONS[shape.activation](writer, f"{part}intermediate.", inner)
    dense = _linear(writer, tensors, f"{part}output.dense", active, shape.inner, shape.hidden)
    added = writer.add("Add", f"{part}output.residual", dense, hidden)
    return _layer_norm(writer, tensors, shape, f"{part}output.LayerNorm", added)


def _linear(writer: GraphWriter, tensors: Prefixed, name: str, vector: str, inputs: int, outputs: int) -> str:
    # torch keeps [outputs, inputs], MatMul wants [inputs, outputs].
    matrix = writer.weight(f"{name}.weight", tensors.read(f"{name}.weight", outputs, inputs).T)
    bias = writer.weight(f"{name}.bias", tensors.read(f"{name}.bias", outputs))
    product = writer.add("MatMul", f"{name}.product", vector, matrix)
    return writer.add("Add", f"{name}.sum", product, bias)


def _layer_norm(writer: GraphWriter, tensors: Prefixed, shape: BertShape, name: str, vector: str) -> str:
    gamma = writer.weight(f"{name}.weight", tensors.read(f"{name}.weight", shape.hidden))
    beta = writer.weight(f"{name}.bias", tensors.read(f"{name}.bias", shape.hidden))
    return writer.add("LayerNormalization", name, vector, gamma, beta, axis=-1, epsilon=shape.epsilon)


def _gelu(writer: GraphWriter, part: str, x: str) -> str:
    """x · (1 + erf(x / √2)) / 2."""
    scaled = writer.add("Div", f"{part}gelu.scaled", x, writer.scalar("gelu.root_two", math.sqrt(2)))
    erf = writer.add("Erf", f"{part}gelu.erf", scaled)
    shifted = writer.add("Add", f"{part}gelu.shifted", erf, writer.scalar("gelu.one", 1.0))
    doubled = writer.add("Mul", f"{part}gelu.doubled", x, shifted)
    return writer.add("Mul", f"{part}gelu", doubled, writer.scalar("gelu.half", 0.5))


def _gelu_tanh(writer: GraphWriter, part: str, x: str) -> str:
    """x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2."""
    cube = writer.add("Pow", f"{part}gelu.cube", x, writer.scalar("gelu.three", 3.0))
    small = writer.add("Mul", f"{part}gelu.small", cube, writer.scalar("gelu.cubic", 0.044715))
    bent = writer.add("Add", f"{part}gelu.bent", x, small)
    scale = writer.scalar("gelu.root_two_over_pi", math.sqrt(2 / math.pi))
    scaled = writer.add("Mul", f"{part}gelu.scaled", bent, scale)
    tanh = writer.add("Tanh", f"{part}gelu.tanh", scaled)
    shifted = writer.add("Add", f"{part}gelu.shifted", tanh, writer.scalar("gelu.one", 1.0))
    halved = writer.add("Mul", f"{part}gelu.halved", x, writer.scalar("gelu.half", 0.5))
    return writer.add("Mul", f"{part}gelu", halved, shifted)


def _relu(writer: GraphWriter, part: str, x: str) -> str:
    return writer.add("Relu", f"{part}relu", x)


ACTIVATIONS = {
    "gelu": _gelu,
    "gelu_python": _gelu,
    "gelu_new": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": _relu,
}
