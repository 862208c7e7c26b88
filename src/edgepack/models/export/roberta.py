"""RobertaModel, XLMRobertaModel and CamembertModel as an ONNX graph: BERT that counts its tokens as fairseq does.

After transformers' ``modeling_xlm_roberta.py``; multilingual-E5 and BGE-M3's dense half are this architecture.
"""

from collections.abc import Mapping
from typing import Any

from edgepack.models.export import bert
from edgepack.models.export.encoder import (
    Encoder,
    count_tokens,
    open_encoder,
    placed_words,
    token_vectors,
    word_vectors,
)
from edgepack.models.graph.writer import GraphWriter, TokenVectors
from edgepack.models.read.safetensors import TensorFile

PADDING = 1
"""The token that is padding, where config.json does not say it."""


def write_roberta(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, hidden_size] (``edgepack.api.axes.Architecture``)."""
    shape = bert.read_shape({"type_vocab_size": 1, **config})
    encoder = open_encoder(writer, weights, shape, names=("roberta.", "xlm_roberta.", "camembert."))
    padding = config.get("pad_token_id")
    hidden = _embeddings(encoder, padding if isinstance(padding, int) else PADDING)
    return token_vectors(encoder, hidden, layers="encoder.layer", names=bert.NAMES)


def _embeddings(encoder: Encoder, padding: int) -> str:
    """There is one token type in use, so that its vector is no lookup: it is added to those of the positions."""
    writer, shape = encoder.writer, encoder.shape
    words = word_vectors(encoder)
    name = "embeddings.{}_embeddings.weight"
    types = encoder.tensors.read(name.format("token_type"), shape.types, shape.hidden)
    places = encoder.tensors.read(name.format("position"), shape.positions, shape.hidden)
    typed = writer.weight(name.format("position"), places + types[:1])
    return placed_words(encoder, words, typed, count_tokens(encoder, padding))
