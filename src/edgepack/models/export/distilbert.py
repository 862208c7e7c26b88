"""DistilBertModel as an ONNX graph: BERT without token types, with names and a configuration of its own.

After transformers' ``modeling_distilbert.py``.
"""

from collections.abc import Mapping
from typing import Any

from edgepack.models.export.encoder import (
    EncoderShape,
    LayerNames,
    activation_of,
    embed_tokens,
    open_encoder,
    require_encoder,
    token_vectors,
)
from edgepack.models.graph.writer import GraphWriter, TokenVectors
from edgepack.models.read.documents import size_of
from edgepack.models.read.safetensors import TensorFile

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
    require_encoder(config)
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


def write_distilbert(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, dim] (``edgepack.api.axes.Architecture``)."""
    encoder = open_encoder(writer, weights, read_shape(config), names=("distilbert.",))
    hidden = embed_tokens(encoder, with_types=False)
    return token_vectors(encoder, hidden, layers="transformer.layer", names=NAMES)
