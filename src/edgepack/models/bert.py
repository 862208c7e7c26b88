"""BertModel as an ONNX graph, written straight from config.json and model.safetensors.

After transformers' ``modeling_bert.py``; MiniLM, BGE, E5 and GTE (the first generation) are all this architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from edgepack.models.encoder import (
    Encoder,
    EncoderShape,
    LayerNames,
    activation_of,
    additive_mask,
    count_up,
    layer,
    layer_norm,
    open_encoder,
    require_absolute_positions,
    require_encoder,
    size_of,
    table,
)
from edgepack.models.graph_writer import finish
from edgepack.models.pooling import pool
from edgepack.models.tensors import TensorFile
from edgepack.records import Pooling

NAMES = LayerNames(
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    dense="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    inner="intermediate.dense",
    outer="output.dense",
    norm="output.LayerNorm",
)


def read_shape(config: Mapping[str, Any]) -> EncoderShape:
    """Check config.json of a BertModel; raises ``ModelError`` or ``UnsupportedModelError``."""
    require_absolute_positions(config)
    require_encoder(config)
    return EncoderShape(
        vocabulary=size_of(config, "vocab_size"),
        positions=size_of(config, "max_position_embeddings"),
        types=size_of(config, "type_vocab_size", 2),
        hidden=size_of(config, "hidden_size"),
        layers=size_of(config, "num_hidden_layers"),
        heads=size_of(config, "num_attention_heads"),
        inner=size_of(config, "intermediate_size"),
        activation=activation_of(config),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
    )


def write_bert(
    config: Mapping[str, Any], weights: TensorFile, *, name: str, pooling: Pooling
) -> onnx.ModelProto:
    """The model, pooling and normalisation included; ``sentence_embedding`` is float32 [batch, hidden_size]."""
    encoder = open_encoder(weights, read_shape(config), names=("bert.",))
    hidden = _embeddings(encoder)
    mask = additive_mask(encoder.writer)
    for number in range(encoder.shape.layers):
        hidden = layer(encoder, f"encoder.layer.{number}.", NAMES, hidden, mask)
    pool(encoder.writer, hidden, "attention_mask", pooling)
    return finish(encoder.writer, name=name, dimension=encoder.shape.hidden)


def _embeddings(encoder: Encoder) -> str:
    writer, shape = encoder.writer, encoder.shape
    words = writer.add("Gather", "embeddings.words", table(encoder, "word", shape.vocabulary), "input_ids")
    kinds = table(encoder, "token_type", shape.types)
    types = writer.add("Gather", "embeddings.types", kinds, "token_type_ids")
    places = table(encoder, "position", shape.positions)
    ids = count_up(encoder, "sequence.positions", shape.positions)
    positions = writer.add("Gather", "embeddings.positions", places, ids)
    typed = writer.add("Add", "embeddings.typed", words, types)
    placed = writer.add("Add", "embeddings.placed", typed, positions)
    return layer_norm(encoder, "embeddings.LayerNorm", placed)
