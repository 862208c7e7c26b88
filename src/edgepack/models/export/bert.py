"""BertModel as an ONNX graph, written straight from config.json and model.safetensors.

After transformers' ``modeling_bert.py``; MiniLM, BGE, E5 and GTE (the first generation) are all this architecture.
"""

from collections.abc import Mapping
from typing import Any

from edgepack.models.export.encoder import (
    EncoderShape,
    LayerNames,
    activation_of,
    embed_tokens,
    open_encoder,
    require_absolute_positions,
    require_encoder,
    token_vectors,
)
from edgepack.models.graph.writer import GraphWriter, TokenVectors
from edgepack.models.read.documents import number_of, size_of
from edgepack.models.read.safetensors import TensorFile

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
        epsilon=number_of(config, "layer_norm_eps", 1e-12),
    )


def write_bert(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, hidden_size] (``edgepack.api.axes.Architecture``)."""
    encoder = open_encoder(writer, weights, read_shape(config), names=("bert.",))
    hidden = embed_tokens(encoder, with_types=True)
    return token_vectors(encoder, hidden, layers="encoder.layer", names=NAMES)
