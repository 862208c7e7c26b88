"""DebertaV2Model (DeBERTa v2 and v3) as an ONNX graph: scores of attention that count distances twice.

After transformers' ``modeling_deberta_v2.py``. A token's score for another has three parts: word to word, word to distance (c2p)
and distance to word (p2c). Vectors of distances do not depend on the text, so that their keys and queries are worked out when the
graph is written: one table each for every layer, with a row for each bucket of distances. A text takes the rows of the distances
that occur in it, and each token's row of scores is shifted to its place by a change of shape.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from edgepack.api import ModelError, UnsupportedModelError
from edgepack.api.graphs import (
    Encoder,
    EncoderShape,
    GraphWriter,
    TensorFile,
    TokenVectors,
    activate,
    activation_of,
    add_and_norm,
    additive_mask,
    count_up,
    layer_norm,
    linear,
    open_encoder,
    require_encoder,
    size_of,
    split_heads,
)

WORDS = "embeddings.word_embeddings.weight"
EXPORTED = "export the model to ONNX yourself and use the .onnx file"
PARTS = ("c2p", "p2c")


@dataclass(frozen=True, kw_only=True)
class Distances:
    """How distances count."""

    span: int
    """Buckets on either side of 0."""
    farthest: int
    """From which distance on all are alike."""
    buckets: int
    """Half of them for short distances, one each, the others wider and wider; 0: one for each distance."""
    parts: tuple[str, ...]
    """Of ``PARTS``, what is added to the scores of words."""
    own: bool
    """Whether distances have projections of their own, and not the words'."""
    normed: bool
    """Whether their vectors are normalised."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Values of the graph that all layers take."""

    rows: Mapping[str, str]
    """Of ``PARTS`` → which rows of its table the text takes, int64 [2 · sequence]."""
    flat: str
    """Shape [0, heads, -1]."""
    first: str
    """Where the scores of the first token begin among those: sequence - 1."""
    end: str
    """Where those of the last end."""
    shifted: str
    """Shape [0, heads, sequence, 2 · sequence - 1]."""
    length: str
    """[sequence]."""


def write_deberta(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, hidden_size] (``edgepack.api.axes.Architecture``)."""
    shape = read_shape(config)
    distances = read_distances(config)
    encoder = open_encoder(writer, weights, shape, names=("deberta.",))
    kept = _kept(writer)
    words = hidden = writer.add("Mul", "embeddings.kept", _embeddings(encoder, config), kept)
    vectors = _distance_vectors(encoder, distances)
    places, mask = _places(encoder, distances), additive_mask(writer)
    for number in range(shape.layers):
        part = f"encoder.layer.{number}."
        hidden = _layer(encoder, part, hidden, mask, distances, vectors, places)
        if number == 0 and config.get("conv_kernel_size", 0) > 0:
            hidden = _convolved(encoder, config, words, hidden, kept)
    return TokenVectors(name=hidden)


def read_shape(config: Mapping[str, Any]) -> EncoderShape:
    """Check config.json of a DebertaV2Model; raises ``ModelError`` or ``UnsupportedModelError``."""
    require_encoder(config)
    types = config.get("type_vocab_size", 0)
    shape = EncoderShape(
        vocabulary=size_of(config, "vocab_size"),
        positions=size_of(config, "max_position_embeddings", 512),
        types=size_of(config, "type_vocab_size") if types else 0,
        hidden=size_of(config, "hidden_size"),
        layers=size_of(config, "num_hidden_layers"),
        heads=size_of(config, "num_attention_heads"),
        inner=size_of(config, "intermediate_size"),
        activation=activation_of(config),
        epsilon=float(config.get("layer_norm_eps", 1e-7)),
    )
    if config.get("attention_head_size", shape.head) != shape.head:
        raise UnsupportedModelError(
            f"config.json: attention_head_size is {config['attention_head_size']!r}; edgepack writes heads of {shape.head}",
            hint=EXPORTED,
        )
    return shape


def read_distances(config: Mapping[str, Any]) -> Distances:
    said = config.get("pos_att_type") or []
    parts = [each.strip() for each in said.lower().split("|")] if isinstance(said, str) else list(said)
    if not config.get("relative_attention"):
        raise UnsupportedModelError(
            "config.json: relative_attention is not set; edgepack writes DeBERTa models that count distances",
            hint=EXPORTED,
        )
    if not parts or set(parts) - set(PARTS):
        raise UnsupportedModelError(
            f"config.json: pos_att_type is {said!r}; edgepack writes {' and '.join(PARTS)}", hint=EXPORTED
        )
    farthest = config.get("max_relative_positions", -1)
    if not isinstance(farthest, int) or farthest < 1:
        farthest = size_of(config, "max_position_embeddings", 512)
    buckets = config.get("position_buckets", -1)
    buckets = buckets if isinstance(buckets, int) and buckets > 0 else 0
    if buckets and (buckets < 4 or farthest <= buckets // 2 + 1):
        raise ModelError(
            f"config.json: {buckets} position_buckets cannot hold distances up to {farthest}",
            hint="get config.json again from where the weights come from",
        )
    norms = [each.strip() for each in str(config.get("norm_rel_ebd", "none")).lower().split("|")]
    return Distances(
        span=buckets or farthest,
        farthest=farthest,
        buckets=buckets,
        parts=tuple(each for each in PARTS if each in parts),
        own=not config.get("share_att_key", False),
        normed="layer_norm" in norms,
    )


def buckets_of(distances: np.ndarray, kinds: Distances) -> np.ndarray:
    """The row of each distance in the table, int64 of the same shape: in float32, as PyTorch works it out."""
    steps = distances.astype(np.float32)
    if kinds.buckets:
        middle = kinds.buckets // 2
        near = np.abs(distances) < middle
        far = np.where(near, middle - 1, np.abs(distances)).astype(np.float32)
        wide = np.log(np.float32((kinds.farthest - 1) / middle))
        logs = np.ceil(np.log(far / np.float32(middle)) / wide * np.float32(middle - 1)) + middle
        steps = np.where(far <= middle, steps, logs * np.sign(steps))
    return np.clip(steps.astype(np.int64) + kinds.span, 0, 2 * kinds.span - 1)


def _kept(writer: GraphWriter) -> str:
    """float32 [batch, sequence, 1]: 1 for tokens, 0 for padding."""
    column = writer.add("Unsqueeze", "kept.column", "attention_mask", writer.ints(2))
    return writer.add("Cast", "kept", column, to=TensorProto.FLOAT)


def _embeddings(encoder: Encoder, config: Mapping[str, Any]) -> str:
    writer, shape, tensors = encoder.writer, encoder.shape, encoder.tensors
    narrow = size_of(config, "embedding_size", shape.hidden)

    def looked_up(kind: str, rows: int, ids: str) -> str:
        name = f"embeddings.{kind}_embeddings.weight"
        table = writer.weight(name, tensors.read(name, rows, narrow))
        return writer.add("Gather", f"embeddings.{kind}s", table, ids)

    summed = looked_up("word", shape.vocabulary, "input_ids")
    if config.get("position_biased_input", True):
        ids = count_up(encoder, "sequence.positions", shape.positions)
        summed = writer.add("Add", "embeddings.placed", summed, looked_up("position", shape.positions, ids))
    if shape.types:
        kinds = looked_up("token_type", shape.types, "token_type_ids")
        summed = writer.add("Add", "embeddings.typed", summed, kinds)
    if narrow != shape.hidden:
        weight = tensors.read("embeddings.embed_proj.weight", shape.hidden, narrow)
        wide = writer.weight("embeddings.embed_proj.weight", weight.T)
        summed = writer.add("MatMul", "embeddings.wide", summed, wide)
    return layer_norm(encoder, "embeddings.LayerNorm", summed)


def _distance_vectors(encoder: Encoder, distances: Distances) -> np.ndarray:
    """Vectors of each bucket, float32 [2 · span, hidden]."""
    tensors, hidden = encoder.tensors, encoder.shape.hidden
    vectors = tensors.read("encoder.rel_embeddings.weight", 2 * distances.span, hidden)
    if not distances.normed:
        return vectors
    gamma, beta = (tensors.read(f"encoder.LayerNorm.{end}", hidden) for end in ("weight", "bias"))
    wide = vectors.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + encoder.shape.epsilon)
    normed: np.ndarray = (centred / deviation * gamma + beta).astype(np.float32)
    return normed


def _places(encoder: Encoder, distances: Distances) -> Places:
    """Tensors that depend on the text's length alone: 2 · n distances, of which each of n tokens uses n neighbouring ones.

    Scores of all tokens one after another, [n · 2n], are those of token 0 from n - 1 on, of token 1 from (n - 1) + (2n - 1) on, and
    so forth: in rows of 2n - 1 they stand one below the other.
    """
    writer, heads = encoder.writer, encoder.shape.heads
    one, two = writer.ints(1), writer.ints(2)
    size = writer.add("Shape", "distances.shape", "input_ids")
    length = writer.add("Slice", "distances.length", size, one, two, writer.ints(0))
    double = writer.add("Mul", "distances.double", length, two)
    row = writer.add("Sub", "distances.row", double, one)
    first = writer.add("Sub", "distances.first", length, one)
    end = writer.add("Add", "distances.end", first, writer.add("Mul", "distances.all", length, row))
    scalar = writer.add("Squeeze", "distances.count", double, writer.ints(0))
    counted = writer.add("Range", "distances.counted", writer.index(0), scalar, writer.index(1))
    ascending = writer.add("Sub", "distances.ascending", counted, first)
    ways = {"c2p": writer.add("Neg", "distances.descending", ascending), "p2c": ascending}
    # Beyond twice the farthest all are in the last bucket.
    edge = 2 * distances.farthest
    table = writer.weight("distances.buckets", buckets_of(np.arange(-edge, edge + 1), distances))
    rows = {}
    for part in distances.parts:
        shifted = writer.add("Add", f"distances.{part}.shifted", ways[part], writer.index(edge))
        inside = writer.add("Min", f"distances.{part}.low", shifted, writer.index(2 * edge))
        bounded = writer.add("Max", f"distances.{part}.bounded", inside, writer.index(0))
        rows[part] = writer.add("Gather", f"distances.{part}", table, bounded)
    head_count, zero = writer.ints(heads), writer.ints(0)
    return Places(
        rows=rows,
        flat=writer.ints(0, heads, -1),
        first=first,
        end=end,
        shifted=writer.add("Concat", "distances.sizes", zero, head_count, length, row, axis=0),
        length=length,
    )


def _layer(
    encoder: Encoder,
    part: str,
    hidden: str,
    mask: str,
    distances: Distances,
    vectors: np.ndarray,
    places: Places,
) -> str:
    writer, shape = encoder.writer, encoder.shape
    own = f"{part}attention.self."
    merged = _attended(encoder, own, hidden, mask, distances, vectors, places)
    dense = linear(encoder, f"{part}attention.output.dense", merged, shape.hidden, shape.hidden)
    middle = add_and_norm(
        encoder, part, "attention.output.dense", "attention.output.LayerNorm", dense, hidden
    )
    inner = linear(encoder, f"{part}intermediate.dense", middle, shape.hidden, shape.inner)
    active = activate(writer, shape.activation, f"{part}intermediate.", inner)
    outer = linear(encoder, f"{part}output.dense", active, shape.inner, shape.hidden)
    return add_and_norm(encoder, part, "output.dense", "output.LayerNorm", outer, middle)


def _attended(
    encoder: Encoder,
    part: str,
    hidden: str,
    mask: str,
    distances: Distances,
    vectors: np.ndarray,
    places: Places,
) -> str:
    writer, shape = encoder.writer, encoder.shape

    def heads(name: str) -> str:
        projected = linear(encoder, f"{part}{name}_proj", hidden, shape.hidden, shape.hidden)
        return split_heads(encoder, f"{part}{name}_proj", projected, [0, 2, 1, 3])

    query, key, value = heads("query"), heads("key"), heads("value")
    turned = writer.add("Transpose", f"{part}key.turned", f"{part}key_proj.split", perm=[0, 2, 3, 1])
    root = writer.scalar("attention.root", math.sqrt(shape.head * (1 + len(distances.parts))))
    bias = ""
    for kind in distances.parts:
        met, table = (query, "key") if kind == "c2p" else (key, "query")
        scores = _by_distance(encoder, f"{part}{kind}.", met, table, distances, vectors, places.rows[kind])
        placed = _shifted(writer, f"{part}{kind}.", scores, places)
        if kind == "p2c":
            placed = writer.add("Transpose", f"{part}p2c.turned", placed, perm=[0, 1, 3, 2])
        bias = writer.add("Add", f"{part}distances", bias, placed) if bias else placed
    bias = writer.add("Div", f"{part}distances.scaled", bias, root)
    words = writer.add("MatMul", f"{part}scores", query, turned)
    scaled = writer.add("Div", f"{part}scaled", words, root)
    hidden_bias = writer.add("Add", f"{part}distances.masked", bias, mask)
    masked = writer.add("Add", f"{part}masked", scaled, hidden_bias)
    shares = writer.add("Softmax", f"{part}shares", masked, axis=-1)
    context = writer.add("MatMul", f"{part}context", shares, value)
    beside = writer.add("Transpose", f"{part}turned", context, perm=[0, 2, 1, 3])
    return writer.add("Reshape", f"{part}merged", beside, writer.ints(0, 0, shape.hidden))


def _by_distance(
    encoder: Encoder,
    part: str,
    met: str,
    table: str,
    distances: Distances,
    vectors: np.ndarray,
    rows: str,
) -> str:
    """Each token's score with each of 2 · n distances, [batch, heads, sequence, 2 · sequence]."""
    writer, shape, tensors = encoder.writer, encoder.shape, encoder.tensors
    own = part.rsplit(".", 2)[0]
    projection = f"{own}.pos_{table}_proj" if distances.own else f"{own}.{table}_proj"
    weight = tensors.read(f"{projection}.weight", shape.hidden, shape.hidden)
    projected = vectors @ weight.T + tensors.read(f"{projection}.bias", shape.hidden)
    taken = writer.add("Gather", f"{part}taken", writer.weight(f"{part}table", projected), rows)
    split = writer.add("Reshape", f"{part}split", taken, writer.ints(-1, shape.heads, shape.head))
    by_head = writer.add("Transpose", f"{part}heads", split, perm=[1, 2, 0])
    return writer.add("MatMul", f"{part}scores", met, by_head)


def _shifted(writer: GraphWriter, part: str, scores: str, places: Places) -> str:
    """[batch, heads, sequence, 2 · sequence] → [batch, heads, sequence, sequence], each token's from where its own begin."""
    flat = writer.add("Reshape", f"{part}flat", scores, places.flat)
    begun = writer.add("Slice", f"{part}begun", flat, places.first, places.end, writer.ints(2))
    rows = writer.add("Reshape", f"{part}rows", begun, places.shifted)
    return writer.add("Slice", f"{part}placed", rows, writer.ints(0), places.length, writer.ints(3))


def _convolved(encoder: Encoder, config: Mapping[str, Any], words: str, hidden: str, kept: str) -> str:
    """Output of the first layer, beside the words with their neighbours: one product of as many words as the kernel is wide."""
    writer, shape, tensors = encoder.writer, encoder.shape, encoder.tensors
    wide = size_of(config, "conv_kernel_size")
    if config.get("conv_groups", 1) != 1 or wide % 2 == 0:
        raise UnsupportedModelError(
            f"config.json asks for a convolution of {config.get('conv_groups', 1)} groups and width {wide}; "
            "edgepack writes one group of an odd width",
            hint=EXPORTED,
        )
    kernel = tensors.read("encoder.conv.conv.weight", shape.hidden, shape.hidden, wide)
    reach = wide // 2
    ends = writer.ints(0, reach, 0, 0, reach, 0)
    padded = writer.add("Pad", "conv.padded", words, ends, mode="constant")
    length = writer.add(
        "Slice", "conv.length", "distances.shape", writer.ints(1), writer.ints(2), writer.ints(0)
    )
    beside = []
    for place in range(wide):
        end = writer.add("Add", f"conv.end.{place}", length, writer.ints(place))
        beside.append(
            writer.add("Slice", f"conv.neighbour.{place}", padded, writer.ints(place), end, writer.ints(1))
        )
    joined = writer.add("Concat", "conv.joined", *beside, axis=-1)
    matrix = kernel.transpose(2, 1, 0).reshape(wide * shape.hidden, shape.hidden)
    product = writer.add("MatMul", "conv.product", joined, writer.weight("conv.weight", matrix))
    bias = writer.weight("conv.bias", tensors.read("encoder.conv.conv.bias", shape.hidden))
    summed = writer.add("Mul", "conv.kept", writer.add("Add", "conv.sum", product, bias), kept)
    name = config.get("conv_act", "tanh")
    if name == "tanh":
        active = writer.add("Tanh", "conv.active", summed)
    else:
        active = activate(writer, activation_of(config, "conv_act"), "conv.", summed)
    added = writer.add("Add", "conv.residual", hidden, active)
    return writer.add("Mul", "conv.output", layer_norm(encoder, "encoder.conv.LayerNorm", added), kept)
