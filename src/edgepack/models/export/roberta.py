"""RobertaModel, XLMRobertaModel and CamembertModel as an ONNX graph: BERT that counts its tokens as fairseq does.

After transformers' ``modeling_xlm_roberta.py``; multilingual-E5 and BGE-M3's dense half are this architecture.
"""

from collections.abc import Mapping
from typing import Any

import onnx

from edgepack.models.export import bert
from edgepack.models.export.encoder import (
    Encoder,
    count_tokens,
    finish_encoder,
    open_encoder,
    placed_words,
    word_vectors,
)
from edgepack.models.read.safetensors import TensorFile
from edgepack.records.model import Pooling

PADDING = 1
"""The token that is padding, where config.json does not say it."""


def write_roberta(
    config: Mapping[str, Any], weights: TensorFile, *, name: str, pooling: Pooling
) -> onnx.ModelProto:
    """The model, pooling and normalisation included; ``sentence_embedding`` is float32 [batch, hidden_size]."""
    shape = bert.read_shape({"type_vocab_size": 1, **config})
    encoder = open_encoder(weights, shape, names=("roberta.", "xlm_roberta.", "camembert."))
    padding = config.get("pad_token_id")
    hidden = _embeddings(encoder, padding if isinstance(padding, int) else PADDING)
    return finish_encoder(
        encoder, hidden, layers="encoder.layer", names=bert.NAMES, name=name, pooling=pooling
    )


def _embeddings(encoder: Encoder, padding: int) -> str:
    """There is one token type in use, so that its vector is no lookup: it is added to those of the positions."""
    writer, shape = encoder.writer, encoder.shape
    words = word_vectors(encoder)
    name = "embeddings.{}_embeddings.weight"
    types = encoder.tensors.read(name.format("token_type"), shape.types, shape.hidden)
    places = encoder.tensors.read(name.format("position"), shape.positions, shape.hidden)
    typed = writer.weight(name.format("position"), places + types[:1])
    return placed_words(encoder, words, typed, count_tokens(encoder, padding))
