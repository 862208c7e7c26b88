"""Baking the pooling into the graph: token vectors become one text vector without any code on the device.

Mean pooling is written as a matrix product of the mask with the token vectors: no kernel beyond those that the
encoder needs anyway, and on CUDA it avoids cuDNN's reduction over the middle axis.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
from onnx import TensorProto

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.graph.dense_activations import DENSE_ACTIVATIONS
from edgepack.models.graph.writer import OUTPUT, PREFIX, GraphWriter, name_output
from edgepack.models.read.documents import EDITED
from edgepack.models.read.safetensors import open_tensors
from edgepack.records.layers import Dense, Layer, LayerNorm, Unit, WeighedLayers
from edgepack.records.model import Pooling
from edgepack.records.target import PoolingMode

# The floors of sentence-transformers' Pooling and of torch.nn.functional.normalize.
SMALLEST_COUNT = 1e-9
SMALLEST_NORM = 1e-12

NODES = frozenset(
    [
        "pool_mask",
        "pool_mask_row",
        "pool_sum_row",
        "pool_sum",
        "pool_count",
        "pool_count_floor",
        "pool_count_root",
        "pooled_mean",
        "pool_kept",
        "pool_kept_column",
        "pool_without_padding",
        "pooled_max",
        "pooled_cls",
        "pool_places",
        "pool_counted",
        "pool_length",
        "pool_last",
        "pool_last_float",
        "pool_last_kept",
        "norm_squares",
        "norm_sum",
        "norm_root",
        "norm_floor",
        "normalized",
        "cut_to",
        "pooled_joined",
    ]
)
"""What the nodes are called, apart from the graph writer's prefix."""
DENSE, JOINED, WEIGHED = "pooled_dense.", "pooled_too.", "weighed_layers."
"""Before the names of the nodes of a layer, of a further way of pooling, and of an encoder's layer that counts, and its number."""
EPSILON = 1e-5
"""Of torch.nn.LayerNorm."""


def is_pooling(name: str) -> bool:
    """Whether a node of this name was written here."""
    own = name.replace(PREFIX, "")
    return name == OUTPUT or own in NODES or own.startswith((DENSE, JOINED, WEIGHED))


def pool(
    writer: GraphWriter, tokens: str, mask: str, pooling: Pooling, *, layers: Sequence[str] = ()
) -> None:
    """Append nodes that turn token vectors into ``sentence_embedding``.

    ``tokens`` is float32 [batch, sequence, dimension], ``mask`` int64 [batch, sequence], ``layers`` what the encoder's layers make, where
    that is known. Raises ``UnsupportedModelError`` where the pooling is of layers that are not.
    """
    if pooling.layers:
        tokens = _weigh_layers(writer, layers, pooling.layers)
    pooled = _pooled(writer, tokens, mask, pooling.mode)
    if pooling.joined:
        further = [
            _pooled(_named_apart(writer, f"{JOINED}{number}."), tokens, mask, mode)
            for number, mode in enumerate(pooling.joined)
        ]
        pooled = writer.add("Concat", "pooled_joined", pooled, *further, axis=-1)
    for number, layer in enumerate(pooling.dense):
        pooled = _layer(writer, f"{DENSE}{number}.", pooled, layer)
    finish_vector(writer, pooled, pooling)


def _weigh_layers(writer: GraphWriter, layers: Sequence[str], weighed: WeighedLayers) -> str:
    """The weighed mean of what layers make, float32 [batch, sequence, dimension]."""
    if len(layers) != weighed.layers + 1:
        raise UnsupportedModelError(
            "modules.json requires WeightedLayerPooling, which edgepack supports for BERT, RoBERTa, MPNet and DistilBERT",
            hint="export the model to ONNX yourself, with the pooling, and use the .onnx file",
        )
    chosen = layers[weighed.first :]
    weights = open_tensors(weighed.file).read("layer_weights", (len(chosen),))
    shares = weights.astype(np.float64) / weights.sum(dtype=np.float64)
    total = ""
    for number, (layer, share) in enumerate(zip(chosen, shares, strict=True)):
        part = writer.add(
            "Mul", f"{WEIGHED}{number}", layer, writer.scalar(f"{WEIGHED}{number}.share", float(share))
        )
        total = writer.add("Add", f"{WEIGHED}{number}.sum", total, part) if total else part
    return total


def _named_apart(writer: GraphWriter, prefix: str) -> GraphWriter:
    """The same graph, under other names."""
    return replace(writer, prefix=writer.prefix + prefix)


def _pooled(writer: GraphWriter, tokens: str, mask: str, mode: PoolingMode) -> str:
    if mode == "cls":
        return writer.add("Gather", "pooled_cls", tokens, writer.index(0), axis=1)
    return _max(writer, tokens, mask) if mode == "max" else _mean(writer, tokens, mask, mode)


def finish_vector(writer: GraphWriter, vector: str, pooling: Pooling) -> None:
    """Append nodes that make ``vector``, float32 [batch, dimension], the graph's output: of length 1 and cut, if asked for."""
    last = _unit(writer, vector) if pooling.normalize else vector
    if pooling.cut:
        last = writer.add("Slice", "cut", last, writer.ints(0), writer.ints(pooling.cut), writer.ints(1))
    name_output(writer, last, OUTPUT)


def _unit(writer: GraphWriter, vector: str) -> str:
    squares = writer.add("Mul", "norm_squares", vector, vector)
    total = writer.add("ReduceSum", "norm_sum", squares, writer.ints(1), keepdims=1)
    norm = writer.add("Sqrt", "norm_root", total)
    floor = writer.add("Max", "norm_floor", norm, writer.scalar("smallest_norm", SMALLEST_NORM))
    return writer.add("Div", "normalized", vector, floor)


def _layer(writer: GraphWriter, name: str, vector: str, layer: Layer) -> str:
    if isinstance(layer, Unit):
        return _unit(_named_apart(writer, name), vector)
    if isinstance(layer, LayerNorm):
        tensors = open_tensors(layer.file)
        weights = [
            writer.weight(f"{name}norm.{part}", tensors.read(f"norm.{part}", (layer.size,)))
            for part in ("weight", "bias")
        ]
        return writer.add("LayerNormalization", f"{name}norm", vector, *weights, axis=-1, epsilon=EPSILON)
    return write_dense(writer, name, vector, layer)


def write_dense(writer: GraphWriter, name: str, vector: str, layer: Dense) -> str:
    """The layer behind ``vector``, float32 [..., inputs]; what was made, float32 [..., outputs]. Names begin with ``name``."""
    tensors = open_tensors(layer.file)
    before = f"{layer.tensor}." if layer.tensor else ""
    matrix = tensors.read(f"{before}weight", (layer.outputs, layer.inputs))
    made = writer.add("MatMul", f"{name}product", vector, writer.weight(f"{name}weight", matrix.T))
    if not layer.bias and f"{before}bias" in tensors.tensors:
        raise ModelError(
            f"{layer.file.parent.name}/{layer.file.name} has {before}bias, and its config.json says that there is no bias",
            hint=EDITED,
        )
    if layer.bias:
        bias = writer.weight(f"{name}bias", tensors.read(f"{before}bias", (layer.outputs,)))
        made = writer.add("Add", f"{name}biased", made, bias)
    if layer.activation:
        made = DENSE_ACTIVATIONS[layer.activation](writer, name, made)
    if layer.norm:
        # As TensorFlow called them.
        old = f"{layer.norm.tensor}.gamma" in tensors.tensors
        scale = tensors.read(f"{layer.norm.tensor}.{'gamma' if old else 'weight'}", (layer.outputs,))
        ending = "beta" if old else "bias"
        shift = tensors.read(f"{layer.norm.tensor}.{ending}", scale.shape) if layer.norm.bias else 0 * scale
        weights = writer.weight(f"{name}norm.weight", scale), writer.weight(f"{name}norm.bias", shift)
        epsilon = layer.norm.epsilon
        made = writer.add("LayerNormalization", f"{name}norm", made, *weights, axis=-1, epsilon=epsilon)
    if not layer.residual:
        return made
    if layer.inputs != layer.outputs:
        matrix = tensors.read("residual.weight", (layer.outputs, layer.inputs))
        vector = writer.add("MatMul", f"{name}carried", vector, writer.weight(f"{name}residual", matrix.T))
    return writer.add("Add", f"{name}added", made, vector)


def _max(writer: GraphWriter, tokens: str, mask: str) -> str:
    kept = writer.add("Cast", "pool_kept", mask, to=TensorProto.BOOL)
    column = writer.add("Unsqueeze", "pool_kept_column", kept, writer.ints(2))
    lowest = writer.scalar("lowest", float(np.finfo(np.float32).min))
    text = writer.add("Where", "pool_without_padding", column, tokens, lowest)
    return writer.add("ReduceMax", "pooled_max", text, axes=[1], keepdims=0)


def _mean(writer: GraphWriter, tokens: str, mask: str, mode: PoolingMode) -> str:
    weights = _token_weights(writer, mask, mode)
    row = writer.add("Unsqueeze", "pool_mask_row", weights, writer.ints(1))
    summed = writer.add("MatMul", "pool_sum_row", row, tokens)
    flat = writer.add("Squeeze", "pool_sum", summed, writer.ints(1))
    count = writer.add("ReduceSum", "pool_count", weights, writer.ints(1), keepdims=1)
    by = writer.add("Max", "pool_count_floor", count, writer.scalar("smallest_count", SMALLEST_COUNT))
    if mode == "mean-sqrt-len":
        by = writer.add("Sqrt", "pool_count_root", by)
    return writer.add("Div", "pooled_mean", flat, by)


def _token_weights(writer: GraphWriter, mask: str, mode: PoolingMode) -> str:
    """Weights of the tokens, float32 [batch, sequence]: 1, its place from 1 on, or 1 for the last alone."""
    kept = writer.add("Cast", "pool_mask", mask, to=TensorProto.FLOAT)
    if mode in ("mean", "mean-sqrt-len"):
        return kept
    places = writer.add("CumSum", "pool_places", kept, writer.index(1))
    counted = writer.add("Mul", "pool_counted", places, kept)
    if mode == "weighted-mean":
        return counted
    if mode != "last":
        raise UnsupportedModelError(
            f"there is no pooling {mode!r}", hint=f"one of: {', '.join(get_args(PoolingMode))}"
        )
    length = writer.add("ReduceSum", "pool_length", kept, writer.ints(1), keepdims=1)
    # Padding before or after the text has place 0 here, so that a text of no token has no last one.
    last = writer.add("Equal", "pool_last", counted, length)
    return writer.add(
        "Mul", "pool_last_kept", writer.add("Cast", "pool_last_float", last, to=TensorProto.FLOAT), kept
    )
