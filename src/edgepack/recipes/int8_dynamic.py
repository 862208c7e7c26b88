"""Dynamic int8: weights and embedding tables become int8, activations are quantized while the model runs.

After https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html. It is written out here, and not
left to that package, for three reasons. Its quantizer imports torch where torch is installed. It gives an embedding
table one scale for all of its rows. And it gives a tensor of activations one scale, so that a text's vector depends on
its neighbours in the batch; here every token has a scale of its own.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto

from edgepack.models.graph_editor import GraphEditor, edit
from edgepack.recipes.recipe import Recipe
from edgepack.records import Pass

Activations = Literal["token", "tensor"]

RECIPE = Recipe(
    name="int8-dynamic",
    summary="int8 weights and embedding tables, every token's activations quantized at run time",
    passes=(
        Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False}),
        Pass(name="int8-dynamic"),
    ),
)

LARGEST = 127
"""Weights are symmetric: -127 to 127."""
MIDDLE = 128
"""What zero is among uint8 activations."""
MICROSOFT = "com.microsoft"


def int8_dynamic(
    model: onnx.ModelProto,
    *,
    activations: Activations = "token",
    tables: bool = True,
    reduce_range: bool = False,
) -> onnx.ModelProto:
    """The model with int8 weights, one scale for each output channel of a matrix and each row of an embedding table.

    ``activations`` is ``token`` (one scale for each token: exact for any batch) or ``tensor`` (one for all: faster by
    a little, and a text's vector depends on the batch). ``tables`` says whether embedding tables are quantized too.
    ``reduce_range`` keeps weights to seven bits, for processors that add up products in 16 bits (AVX2 without VNNI).
    """
    editor = edit(model)
    largest = LARGEST // 2 if reduce_range else LARGEST
    for node in editor.take_nodes():
        if node.op_type == "MatMul" and editor.is_matrix(node.input[1]):
            _quantize_matmul(editor, node, activations, largest)
        elif node.op_type == "Attention" and activations == "tensor":
            _quantize_attention(editor, node, largest)
        elif node.op_type == "Gather" and tables and editor.is_matrix(node.input[0]):
            _quantize_table(editor, node)
        else:
            editor.keep(node)
    return editor.finish()


def _quantize_matmul(
    editor: GraphEditor, node: onnx.NodeProto, activations: Activations, largest: int
) -> None:
    vector, weight, output = node.input[0], node.input[1], node.output[0]
    matrix, scales = _quantized_columns(editor, weight, largest)
    zeros = editor.weight(f"{weight}.zeros", np.zeros(editor.array(weight).shape[1], np.int8))
    if activations == "tensor":
        quantized, scale, zero = _quantized_tensor(editor, vector)
        editor.add(
            "MatMulIntegerToFloat",
            [quantized, matrix, scale, scales, zero, zeros],
            [output],
            name=node.name,
            domain=MICROSOFT,
        )
        return
    quantized, ranges = _quantized_tokens(editor, vector)
    step = editor.weight("token.step", np.array(1 / LARGEST, np.float32))
    middle = editor.weight("token.middle", np.array(MIDDLE, np.uint8))
    product = editor.add(
        "MatMulIntegerToFloat",
        [quantized, matrix, step, scales, middle, zeros],
        [f"{output}.unscaled"],
        name=f"{node.name}.unscaled",
        domain=MICROSOFT,
    )
    editor.add("Mul", [product, ranges], [output], name=node.name)


def _quantize_attention(editor: GraphEditor, node: onnx.NodeProto, largest: int) -> None:
    vector, weight, bias, mask = node.input[:4]
    matrix, scales = _quantized_columns(editor, weight, largest)
    zeros = editor.weight(f"{weight}.zeros", np.zeros(editor.array(weight).shape[1], np.int8))
    quantized, scale, zero = _quantized_tensor(editor, vector)
    editor.add(
        "QAttention",
        [quantized, matrix, bias, scale, scales, mask, zero, zeros],
        list(node.output),
        name=node.name,
        domain=MICROSOFT,
        attributes=list(node.attribute),
    )


def _quantize_table(editor: GraphEditor, node: onnx.NodeProto) -> None:
    """int8 rows and their scales are gathered, then multiplied: the table itself is never expanded."""
    table, ids, output = node.input[0], node.input[1], node.output[0]
    values = editor.array(table)
    scales = _scales(values, axis=1, largest=LARGEST)
    rows = editor.weight(f"{table}.int8", _rounded(values / scales))
    factors = editor.weight(f"{table}.scales", scales)
    row = editor.add("Gather", [rows, ids], [f"{output}.int8"], name=f"{node.name}.int8")
    factor = editor.add("Gather", [factors, ids], [f"{output}.scale"], name=f"{node.name}.scale")
    value = editor.add(
        "Cast", [row], [f"{output}.unscaled"], name=f"{node.name}.unscaled", to=TensorProto.FLOAT
    )
    editor.add("Mul", [value, factor], [output], name=node.name)


def _quantized_columns(editor: GraphEditor, weight: str, largest: int) -> tuple[str, str]:
    """A matrix [inputs, outputs] as int8, and its scales [outputs]."""
    values = editor.array(weight)
    scales = _scales(values, axis=0, largest=largest)
    matrix = editor.weight(f"{weight}.int8", _rounded(values / scales))
    factors = editor.weight(f"{weight}.scales", scales.reshape(-1))
    return matrix, factors


def _scales(values: np.ndarray, *, axis: int, largest: int) -> np.ndarray:
    ranges = np.abs(values).max(axis=axis, keepdims=True)
    scales: np.ndarray = (np.where(ranges > 0, ranges, 1) / largest).astype(np.float32)
    return scales


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), -LARGEST, LARGEST).astype(np.int8)


def _quantized_tensor(editor: GraphEditor, vector: str) -> tuple[str, str, str]:
    """uint8 values, their one scale and zero point; made once for all the matrices that the tensor goes into."""
    names = (f"{vector}.uint8", f"{vector}.scale", f"{vector}.zero")
    if not editor.is_made(names[0]):
        editor.add("DynamicQuantizeLinear", [vector], list(names), name=f"{vector}.quantize")
    return names


def _quantized_tokens(editor: GraphEditor, vector: str) -> tuple[str, str]:
    """uint8 values [batch, sequence, hidden] around 128, and every token's range [batch, sequence, 1]."""
    quantized, ranges = f"{vector}.uint8", f"{vector}.range"
    if editor.is_made(quantized):
        return quantized, ranges
    sizes = editor.add("Abs", [vector], [f"{vector}.sizes"], name=f"{vector}.sizes")
    largest = editor.add(
        "ReduceMax", [sizes], [f"{vector}.largest"], name=f"{vector}.largest", axes=[-1], keepdims=1
    )
    floor = editor.weight("token.floor", np.array(1e-12, np.float32))
    editor.add("Max", [largest, floor], [ranges], name=ranges)
    shares = editor.add("Div", [vector, ranges], [f"{vector}.shares"], name=f"{vector}.shares")
    step = editor.weight("token.step", np.array(1 / LARGEST, np.float32))
    middle = editor.weight("token.middle", np.array(MIDDLE, np.uint8))
    editor.add("QuantizeLinear", [shares, step, middle], [quantized], name=quantized)
    return quantized, ranges
