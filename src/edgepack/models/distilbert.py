"""DistilBertModel as an ONNX graph: BERT without token types, with names and a configuration of its own.

After transformers' ``modeling_distilbert.py``.
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
    size_of,
    table,
)
from edgepack.models.graph_writer import finish
from edgepack.models.pooling import pool
from edgepack.models.tensors import TensorFile
from edgepack.records import Pooling

NAMES = LayerNames(
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    dense="attention.out_lin",
    attention_norm="sa_layer_norm",
    inner="ffn.lin1",
    outer="ffn.lin2",
    norm="output_layer_norm",
)
EPSILON = 1e-12


def read_shape(config: Mapping[str, Any]) -> EncoderShape:
    """Check config.json of a DistilBertModel; raises ``ModelError`` or ``UnsupportedModelError``."""
    return EncoderShape(
        vocabulary=size_of(config, "vocab_size"),
        positions=size_of(config, "max_position_embeddings", 512),
        types=1,
        hidden=size_of(config, "dim"),
        layers=size_of(config, "n_layers"),
        heads=size_of(config, "n_heads"),
        inner=size_of(config, "hidden_dim"),
        activation=activation_of(config, "activation"),
        epsilon=EPSILON,
    )


def write_distilbert(
    config: Mapping[str, Any], weights: TensorFile, *, name: str, pooling: Pooling
) -> onnx.ModelProto:
    """The model, pooling and normalisation included; ``sentence_embedding`` is float32 [batch, dim]."""
    encoder = open_encoder(weights, read_shape(config), names=("distilbert.",))
    hidden = _embeddings(encoder)
    mask = additive_mask(encoder.writer)
    for number in range(encoder.shape.layers):
        hidden = layer(encoder, f"transformer.layer.{number}.", NAMES, hidden, mask)
    pool(encoder.writer, hidden, "attention_mask", pooling)
    return finish(encoder.writer, name=name, dimension=encoder.shape.hidden)


def _embeddings(encoder: Encoder) -> str:
    writer, shape = encoder.writer, encoder.shape
    words = writer.add("Gather", "embeddings.words", table(encoder, "word", shape.vocabulary), "input_ids")
    places = table(encoder, "position", shape.positions)
    ids = count_up(encoder, "sequence.positions", shape.positions)
    positions = writer.add("Gather", "embeddings.positions", places, ids)
    placed = writer.add("Add", "embeddings.placed", words, positions)
    return layer_norm(encoder, "embeddings.LayerNorm", placed)
