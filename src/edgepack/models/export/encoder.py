"""The parts that transformer encoders have in common, written as ONNX nodes.

The nodes stand in the order and with the operators that PyTorch's exporter gave BERT, because that is the shape which
onnxruntime.transformers' fusions look for (EmbedLayerNormalization, Attention, SkipLayerNormalization, BiasGelu).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.graph.activations import ACTIVATIONS, activate
from edgepack.models.graph.writer import GraphWriter, TokenVectors
from edgepack.models.read.documents import EDITED
from edgepack.models.read.safetensors import ITEM_BYTES, Array, TensorFile, missing_tensor

WORD_TABLE = "embeddings.word_embeddings.weight"
WRAPPERS = ("", "model.", "0.auto_model.", "auto_model.")
"""What training code puts before the names of a model's tensors."""
MASKED = float(np.finfo(np.float32).min)
"""What is added to the scores of padding, as in transformers."""


@dataclass(frozen=True, kw_only=True)
class EncoderShape:
    """Sizes and settings of an encoder: config.json, checked."""

    vocabulary: int
    positions: int
    types: int
    hidden: int
    layers: int
    heads: int
    inner: int
    activation: str
    epsilon: float

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise ModelError(
                f"config.json: {self.hidden} dimensions cannot be shared among {self.heads} attention heads",
                hint=EDITED,
            )

    @property
    def head(self) -> int:
        """Numbers that one head works with."""
        return self.hidden // self.heads


@dataclass(frozen=True, kw_only=True)
class LayerNames:
    """Names of a layer's parts, each after the layer's own prefix."""

    query: str
    key: str
    value: str
    dense: str
    attention_norm: str
    inner: str
    outer: str
    norm: str


@dataclass(frozen=True, kw_only=True)
class Prefixed:
    """Weights whose names all begin alike, e.g. with ``bert.``."""

    weights: TensorFile
    prefix: str

    def read(self, name: str, *shape: int) -> Array:
        """A tensor; LayerNorm's ``weight`` and ``bias`` may be called ``gamma`` and ``beta``, as TensorFlow did."""
        older = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        )
        names = [each for each in dict.fromkeys((name, older)) if self.has(each)] or [name]
        found, *others = (self.weights.read(self.prefix + each, shape) for each in names)
        if others and not np.array_equal(found, others[0]):
            raise _twice(self.weights.path, *(self.prefix + each for each in names))
        return found

    def has(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return self.prefix + name in self.weights.tensors


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A graph that is being written: where to, from which weights, of what shape."""

    writer: GraphWriter
    tensors: Prefixed
    shape: EncoderShape


def open_encoder(
    writer: GraphWriter,
    weights: TensorFile,
    shape: EncoderShape,
    *,
    names: Sequence[str],
    words: str = WORD_TABLE,
) -> Encoder:
    """Begin to write; ``names`` are what transformers puts before tensors of this architecture, e.g. ``bert.``.

    ``words`` is what the architecture calls the table that tells what is put before.
    """
    return Encoder(writer=writer, tensors=prefixed(weights, words, names=names), shape=shape)


def prefixed(weights: TensorFile, words: str, *, names: Sequence[str]) -> Prefixed:
    """The weights by the names that they have behind what is put before ``words``. Raises ``ModelError`` where that is missing."""
    wrapped = (wrapper + name for wrapper in WRAPPERS[1:] for name in names)
    found = [each for each in (*WRAPPERS, *names, *wrapped) if each + words in weights.tensors]
    if not found:
        raise missing_tensor(weights.path, words)
    first, *others = found
    for other in others:
        for name in (each for each in weights.tensors if each.startswith(other)):
            own = first + name.removeprefix(other)
            if own in weights.tensors and not _same(weights, own, name):
                raise _twice(weights.path, own, name)
    return Prefixed(weights=weights, prefix=first)


def _same(weights: TensorFile, one: str, other: str) -> bool:
    """Whether two tensors have the same numbers; whole numbers are no weights."""
    left, right = (weights.tensors[each] for each in (one, other))
    if not {left.dtype, right.dtype} <= ITEM_BYTES.keys():
        return True
    return left.shape == right.shape and np.array_equal(
        weights.read(one, left.shape), weights.read(other, left.shape)
    )


def _twice(path: Path, one: str, other: str) -> ModelError:
    return ModelError(
        f"{path.name} has {one} and {other}, which are two names of one tensor, with other numbers",
        hint="the weights of two models are in one file; save the one that is meant",
    )


def activation_of(config: Mapping[str, Any], key: str = "hidden_act") -> str:
    """The name of an activation that can be written; or ``UnsupportedModelError``."""
    name = config.get(key, "gelu")
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise UnsupportedModelError(
            f"config.json: {key} {repr(name)[:60]} is not supported",
            hint=f"supported are {', '.join(sorted(ACTIVATIONS))}",
        )
    return name


def require_encoder(config: Mapping[str, Any]) -> None:
    """Raise ``UnsupportedModelError`` for a decoder, or an encoder that transformers 5 makes see those before a token alone."""
    if any(config.get(key) for key in ("is_decoder", "add_cross_attention", "is_causal")):
        raise UnsupportedModelError(
            "config.json describes a decoder (is_decoder, add_cross_attention, is_causal); edgepack takes encoders",
            hint="take an embedding model of texts",
        )


def require_absolute_positions(config: Mapping[str, Any]) -> None:
    """Raise ``UnsupportedModelError`` for position embeddings of another kind than a table."""
    position = config.get("position_embedding_type") or "absolute"
    if position != "absolute":
        raise UnsupportedModelError(
            f"config.json asks for {position} position embeddings; edgepack writes absolute ones",
            hint="export the model to ONNX yourself and use the .onnx file",
        )


def embedding_initializer(encoder: Encoder, kind: str, rows: int) -> str:
    """An embedding table [rows, hidden]; ``kind`` is ``word``, ``position`` or ``token_type``."""
    name = f"embeddings.{kind}_embeddings.weight"
    return encoder.writer.weight(name, encoder.tensors.read(name, rows, encoder.shape.hidden))


def word_vectors(encoder: Encoder) -> str:
    """The word table's row of each token, [batch, sequence, hidden]."""
    table = embedding_initializer(encoder, "word", encoder.shape.vocabulary)
    return encoder.writer.add("Gather", "embeddings.words", table, "input_ids")


def placed_words(encoder: Encoder, words: str, table: str, places: str) -> str:
    """Words and the rows of the places' table added up and normalised."""
    positions = encoder.writer.add("Gather", "embeddings.positions", table, places)
    placed = encoder.writer.add("Add", "embeddings.placed", words, positions)
    return layer_norm(encoder, "embeddings.LayerNorm", placed)


def count_up(encoder: Encoder, name: str, length: int) -> str:
    """int64 [1, sequence]: 0, 1, 2, … cut from a constant, as EmbedLayerNormalization's fusion expects it."""
    writer = encoder.writer
    size = writer.add("Shape", "sequence.shape", "input_ids")
    tokens = writer.add("Gather", "sequence.length", size, writer.index(1), axis=0)
    end = writer.add("Unsqueeze", "sequence.end", tokens, writer.ints(0))
    every = writer.weight("position_ids", np.arange(length, dtype=np.int64)[None, :])
    return writer.add("Slice", name, every, writer.ints(0), end, writer.ints(1), writer.ints(1))


def count_tokens(encoder: Encoder, padding: int) -> str:
    """int64 [batch, sequence]: tokens are counted from ``padding + 1`` on, padding is ``padding``, as fairseq counts."""
    writer = encoder.writer
    pads = writer.add("Equal", "positions.pads", "input_ids", writer.index(padding))
    words = writer.add("Not", "positions.words", pads)
    kept = writer.add("Cast", "positions.kept", words, to=TensorProto.INT64)
    counted = writer.add("CumSum", "positions.counted", kept, writer.index(1))
    masked = writer.add("Mul", "positions.masked", counted, kept)
    return writer.add("Add", "positions", masked, writer.index(padding))


def additive_mask(writer: GraphWriter) -> str:
    """float32 [batch, 1, 1, sequence]: 0 for tokens, a large negative number for padding."""
    rows = writer.add("Unsqueeze", "mask.rows", "attention_mask", writer.ints(1))
    cells = writer.add("Unsqueeze", "mask.cells", rows, writer.ints(2))
    kept = writer.add("Cast", "mask.kept", cells, to=TensorProto.FLOAT)
    dropped = writer.add("Sub", "mask.dropped", writer.scalar("mask.one", 1.0), kept)
    return writer.add("Mul", "mask.additive", dropped, writer.scalar("mask.value", MASKED))


def layer(encoder: Encoder, part: str, names: LayerNames, hidden: str, bias: str) -> str:
    """One layer as BERT has it: each half added to what came in, then normalised. ``bias`` is added to the scores."""
    shape = encoder.shape

    def heads(name: str, order: list[int]) -> str:
        projected = linear(encoder, part + name, hidden, shape.hidden, shape.hidden)
        return split_heads(encoder, part + name, projected, order)

    query = heads(names.query, [0, 2, 1, 3])
    key = heads(names.key, [0, 2, 3, 1])
    value = heads(names.value, [0, 2, 1, 3])
    merged = attend(encoder, f"{part}attention.", query, key, value, bias)
    dense = linear(encoder, part + names.dense, merged, shape.hidden, shape.hidden)
    attended = add_and_norm(encoder, part, names.dense, names.attention_norm, dense, hidden)
    inner = linear(encoder, part + names.inner, attended, shape.hidden, shape.inner)
    active = activate(encoder.writer, shape.activation, part + _parent(names.inner), inner)
    outer = linear(encoder, part + names.outer, active, shape.inner, shape.hidden)
    return add_and_norm(encoder, part, names.outer, names.norm, outer, attended)


def embed_tokens(encoder: Encoder, *, with_types: bool) -> str:
    """The sum of each token's word, place and, where the model has them, type; normalised: [batch, sequence, hidden]."""
    writer, shape = encoder.writer, encoder.shape
    words = word_vectors(encoder)
    if with_types:
        kinds = embedding_initializer(encoder, "token_type", shape.types)
        types = writer.add("Gather", "embeddings.types", kinds, "token_type_ids")
    places = embedding_initializer(encoder, "position", shape.positions)
    ids = count_up(encoder, "sequence.positions", shape.positions)
    positions = writer.add("Gather", "embeddings.positions", places, ids)
    if with_types:
        words = writer.add("Add", "embeddings.typed", words, types)
    placed = writer.add("Add", "embeddings.placed", words, positions)
    return layer_norm(encoder, "embeddings.LayerNorm", placed)


def write_layers(
    encoder: Encoder, hidden: str, *, layers: str, names: LayerNames, bias: str | None = None
) -> str:
    """The layers, each called ``layers`` and its number: the token vectors, float32 [batch, sequence, hidden].

    ``bias`` is added to the scores; without, what hides padding.
    """
    return token_vectors(encoder, hidden, layers=layers, names=names, bias=bias).name


def token_vectors(
    encoder: Encoder, hidden: str, *, layers: str, names: LayerNames, bias: str | None = None
) -> TokenVectors:
    """Token vectors, with what each layer makes."""
    added = bias or additive_mask(encoder.writer)
    made = [hidden]
    for number in range(encoder.shape.layers):
        made.append(layer(encoder, f"{layers}.{number}.", names, made[-1], added))
    return TokenVectors(name=made[-1], layers=tuple(made))


def split_heads(encoder: Encoder, name: str, projected: str, order: list[int]) -> str:
    """[batch, sequence, hidden] → heads, with the axes of [batch, sequence, heads, head] in the order given.

    As ``attend`` wants them: query and value ``[0, 2, 1, 3]``, the key ``[0, 2, 3, 1]``.
    """
    writer, shape = encoder.writer, encoder.shape
    split = writer.add("Reshape", f"{name}.split", projected, writer.ints(0, 0, shape.heads, shape.head))
    return writer.add("Transpose", f"{name}.heads", split, perm=order)


def attend(encoder: Encoder, part: str, query: str, key: str, value: str, bias: str) -> str:
    """softmax(query · key / √head + bias) · value, its heads side by side: [batch, sequence, hidden].

    Query and value are [batch, heads, sequence, head], the key is [batch, heads, head, sequence].
    """
    writer, shape = encoder.writer, encoder.shape
    product = writer.add("MatMul", f"{part}scores", query, key)
    root = writer.scalar("attention.root", math.sqrt(shape.head))
    scaled = writer.add("Div", f"{part}scaled", product, root)
    masked = writer.add("Add", f"{part}masked", scaled, bias)
    shares = writer.add("Softmax", f"{part}shares", masked, axis=-1)
    context = writer.add("MatMul", f"{part}context", shares, value)
    turned = writer.add("Transpose", f"{part}turned", context, perm=[0, 2, 1, 3])
    return writer.add("Reshape", f"{part}merged", turned, writer.ints(0, 0, shape.hidden))


def add_and_norm(encoder: Encoder, part: str, made_by: str, norm: str, vector: str, before: str) -> str:
    """LayerNorm(vector + before)."""
    added = encoder.writer.add("Add", f"{part}{_parent(made_by)}residual", vector, before)
    return layer_norm(encoder, part + norm, added)


def linear(encoder: Encoder, name: str, vector: str, inputs: int, outputs: int) -> str:
    """vector · weightᵀ + bias."""
    bias = encoder.tensors.read(f"{name}.bias", outputs)
    product = matrix(encoder, name, vector, encoder.tensors.read(f"{name}.weight", outputs, inputs))
    return encoder.writer.add("Add", f"{name}.sum", product, encoder.writer.weight(f"{name}.bias", bias))


def matrix(encoder: Encoder, name: str, vector: str, weight: Array) -> str:
    """vector · weightᵀ; torch keeps [outputs, inputs], MatMul wants [inputs, outputs]."""
    return encoder.writer.add(
        "MatMul", f"{name}.product", vector, encoder.writer.weight(f"{name}.weight", weight.T)
    )


def layer_norm(encoder: Encoder, name: str, vector: str) -> str:
    """(vector - mean) / √(variance + ε), times weight, plus bias."""
    writer, hidden = encoder.writer, encoder.shape.hidden
    gamma = writer.weight(f"{name}.weight", encoder.tensors.read(f"{name}.weight", hidden))
    beta = writer.weight(f"{name}.bias", encoder.tensors.read(f"{name}.bias", hidden))
    return writer.add("LayerNormalization", name, vector, gamma, beta, axis=-1, epsilon=encoder.shape.epsilon)


def _parent(name: str) -> str:
    """Name without its last part, with the dot."""
    return name[: name.rfind(".") + 1]
