"""The graph: from token ids to token vectors. Pooling and all that comes after are the host's.

This one is BERT's, with the names that its checkpoints have; `edgepack.api.graphs` has the parts.
"""

from collections.abc import Mapping
from typing import Any

from edgepack.api import graphs

NAMES = graphs.LayerNames(
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    dense="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    inner="intermediate.dense",
    outer="output.dense",
    norm="output.LayerNorm",
)


def write(
    config: Mapping[str, Any], weights: graphs.TensorFile, writer: graphs.GraphWriter
) -> graphs.TokenVectors:
    """The name of the token vectors, float32 [batch, tokens, hidden]."""
    encoder = graphs.open_encoder(writer, weights, graphs.read_shape(config), names=("acme.",))
    hidden = graphs.embed_tokens(encoder, with_types=True)
    return graphs.TokenVectors(name=graphs.write_layers(encoder, hidden, layers="encoder.layer", names=NAMES))
