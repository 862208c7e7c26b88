"""MPNetModel as an ONNX graph: BERT that also adds to every score what two tokens' distance is worth.

After transformers' ``modeling_mpnet.py``. Which of 32 buckets a distance falls into is worked out here, once: the graph
holds a value for every head and distance, and looks it up.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgepack.errors import UnsupportedModelError
from edgepack.models.export import bert
from edgepack.models.export.encoder import (
    Encoder,
    additive_mask,
    count_tokens,
    count_up,
    embedding_initializer,
    open_encoder,
    placed_words,
    token_vectors,
    word_vectors,
)
from edgepack.models.graph.writer import GraphWriter, TokenVectors
from edgepack.models.read.safetensors import TensorFile
from edgepack.models.read.sentence_transformers import MPNET_PADDING

NAMES = replace(
    bert.NAMES,
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    dense="attention.attn.o",
    attention_norm="attention.LayerNorm",
)
BUCKETS = 32
FARTHEST = 128
"""Tokens; all greater distances share a bucket with this one."""


def write_mpnet(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, hidden_size] (``edgepack.api.axes.Architecture``)."""
    if (buckets := config.get("relative_attention_num_buckets", BUCKETS)) != BUCKETS:
        raise UnsupportedModelError(
            f"config.json asks for {buckets} buckets of distances; MPNet has {BUCKETS}",
            hint="export the model to ONNX yourself and use the .onnx file",
        )
    shape = bert.read_shape({**config, "type_vocab_size": 1})
    encoder = open_encoder(writer, weights, shape, names=("mpnet.",))
    hidden = _embeddings(encoder)
    mask = additive_mask(encoder.writer)
    bias = encoder.writer.add("Add", "attention.bias", _distances(encoder), mask)
    return token_vectors(encoder, hidden, layers="encoder.layer", names=NAMES, bias=bias)


def _embeddings(encoder: Encoder) -> str:
    words = word_vectors(encoder)
    places = embedding_initializer(encoder, "position", encoder.shape.positions)
    return placed_words(encoder, words, places, count_tokens(encoder, MPNET_PADDING))


def _distances(encoder: Encoder) -> str:
    """float32 [1, heads, sequence, sequence]: what is added for each pair of places."""
    writer, shape = encoder.writer, encoder.shape
    longest = shape.positions
    name = "encoder.relative_attention_bias.weight"
    by_bucket = encoder.tensors.read(name, BUCKETS, shape.heads)
    buckets = distance_buckets(np.arange(-longest + 1, longest))
    # Of three dimensions: a lookup of single values, which no recipe takes for an embedding table.
    values = writer.weight("attention.distances", by_bucket[buckets].T[None])
    places = count_up(encoder, "attention.places", longest)
    rows = writer.add("Unsqueeze", "attention.rows", places, writer.ints(2))
    columns = writer.add("Unsqueeze", "attention.columns", places, writer.ints(1))
    apart = writer.add("Sub", "attention.apart", columns, rows)
    index = writer.add("Add", "attention.distance_index", apart, writer.index(longest - 1))
    pairs = writer.add("Squeeze", "attention.pairs", index, writer.ints(0))
    return writer.add("Gather", "attention.by_distance", values, pairs, axis=2)


def distance_buckets(distances: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bucket of each distance (key's place minus query's): exact up to 7, then ever coarser; a half for each sign."""
    half = BUCKETS // 2
    exact = half // 2
    apart = np.abs(distances)
    logarithms = np.log(np.maximum(apart, 1).astype(np.float32) / np.float32(exact))
    # In float32 and in transformers' order, so that distances on the edge of a bucket fall to the same side.
    coarse = (logarithms / np.float32(math.log(FARTHEST / exact)) * np.float32(half - exact)).astype(np.int64)
    steps = np.where(apart < exact, apart, np.minimum(exact + coarse, half - 1))
    return steps + np.where(distances > 0, half, 0)
