"""AlbertModel as an ONNX graph: BERT's layer, its weights shared by all layers of a group, and a narrow table of words.

After transformers' ``modeling_albert.py``. A weight that several layers share is in the graph once.
"""

from collections.abc import Mapping
from typing import Any

from edgepack.api import ModelError
from edgepack.api.graphs import (
    Encoder,
    GraphWriter,
    TensorFile,
    TokenVectors,
    activate,
    additive_mask,
    attend,
    count_up,
    open_encoder,
    read_shape,
    size_of,
    split_heads,
)

TABLE = "embeddings.{}_embeddings.weight"
DAMAGED = "get config.json again from where the weights come from"


def write_albert(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, hidden_size] (``edgepack.api.axes.Architecture``)."""
    encoder = open_encoder(writer, weights, read_shape(config), names=("albert.",))
    narrow = size_of(config, "embedding_size", 128)
    hidden = _embeddings(encoder, narrow)
    hidden = _linear(
        encoder,
        "embeddings.mapped",
        "encoder.embedding_hidden_mapping_in",
        hidden,
        narrow,
        encoder.shape.hidden,
    )
    mask = additive_mask(writer)
    for number, shared in enumerate(shared_layers(config, encoder.shape.layers)):
        hidden = _layer(encoder, f"layers.{number}.", shared, hidden, mask)
    return TokenVectors(name=hidden)


def shared_layers(config: Mapping[str, Any], layers: int) -> list[str]:
    """Names of the weights of each layer, in the order of their use. Raises ``ModelError``."""
    groups, inner = size_of(config, "num_hidden_groups", 1), size_of(config, "inner_group_num", 1)
    if groups > layers:
        raise ModelError(f"config.json: {layers} layers cannot be of {groups} groups", hint=DAMAGED)
    part = "encoder.albert_layer_groups.{}.albert_layers.{}."
    return [
        part.format(number * groups // layers, place) for number in range(layers) for place in range(inner)
    ]


def _embeddings(encoder: Encoder, narrow: int) -> str:
    writer, shape, tensors = encoder.writer, encoder.shape, encoder.tensors

    def looked_up(kind: str, rows: int, ids: str) -> str:
        name = TABLE.format(kind)
        table = writer.weight(name, tensors.read(name, rows, narrow))
        return writer.add("Gather", f"embeddings.{kind}s", table, ids)

    words = looked_up("word", shape.vocabulary, "input_ids")
    types = looked_up("token_type", shape.types, "token_type_ids")
    positions = looked_up(
        "position", shape.positions, count_up(encoder, "sequence.positions", shape.positions)
    )
    typed = writer.add("Add", "embeddings.typed", words, types)
    placed = writer.add("Add", "embeddings.placed", typed, positions)
    return _norm(encoder, "embeddings.normed", "embeddings.LayerNorm", placed, narrow)


def _layer(encoder: Encoder, part: str, shared: str, hidden: str, mask: str) -> str:
    """One layer as BERT has it; ``part`` begins its nodes' names, ``shared`` those of its weights."""
    writer, shape = encoder.writer, encoder.shape

    def heads(name: str, order: list[int]) -> str:
        own = f"{part}attention.{name}"
        projected = _linear(encoder, own, f"{shared}attention.{name}", hidden, shape.hidden, shape.hidden)
        return split_heads(encoder, own, projected, order)

    query, key, value = (
        heads("query", [0, 2, 1, 3]),
        heads("key", [0, 2, 3, 1]),
        heads("value", [0, 2, 1, 3]),
    )
    merged = attend(encoder, f"{part}attention.", query, key, value, mask)
    dense = _linear(
        encoder, f"{part}attention.dense", f"{shared}attention.dense", merged, shape.hidden, shape.hidden
    )
    added = writer.add("Add", f"{part}attention.residual", dense, hidden)
    middle = _norm(encoder, f"{part}attention.normed", f"{shared}attention.LayerNorm", added, shape.hidden)
    inner = _linear(encoder, f"{part}ffn", f"{shared}ffn", middle, shape.hidden, shape.inner)
    active = activate(writer, shape.activation, part, inner)
    outer = _linear(encoder, f"{part}ffn_output", f"{shared}ffn_output", active, shape.inner, shape.hidden)
    summed = writer.add("Add", f"{part}residual", outer, middle)
    return _norm(encoder, f"{part}normed", f"{shared}full_layer_layer_norm", summed, shape.hidden)


def _linear(encoder: Encoder, node: str, tensor: str, vector: str, inputs: int, outputs: int) -> str:
    """vector · weightᵀ + bias."""
    writer, tensors = encoder.writer, encoder.tensors
    weight = writer.weight(f"{tensor}.weight", tensors.read(f"{tensor}.weight", outputs, inputs).T)
    bias = writer.weight(f"{tensor}.bias", tensors.read(f"{tensor}.bias", outputs))
    product = writer.add("MatMul", f"{node}.product", vector, weight)
    return writer.add("Add", f"{node}.sum", product, bias)


def _norm(encoder: Encoder, node: str, tensor: str, vector: str, size: int) -> str:
    writer, tensors = encoder.writer, encoder.tensors
    gamma, beta = (
        writer.weight(f"{tensor}.{end}", tensors.read(f"{tensor}.{end}", size)) for end in ("weight", "bias")
    )
    return writer.add("LayerNormalization", node, vector, gamma, beta, axis=-1, epsilon=encoder.shape.epsilon)
