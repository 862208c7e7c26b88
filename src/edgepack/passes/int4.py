"""int4 weights in blocks: MatMulNBits for matrices, GatherBlockQuantized for embedding tables.

After https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits; on the CPU,
ONNX Runtime 1.21 has the kernel for four bits alone. Blocks are rounded to the nearest, with fitted scales or by GPTQ
(https://arxiv.org/abs/2210.17323), whichever loses least of a matrix's product on calibration texts. What stays
float32 here may be quantized by a later pass: with ``layers`` that is how mixed recipes are written.

Cost: the file has a sixth of the size; the furthest from full precision, and no faster than it.
"""

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from edgepack.models.graph.editor import MICROSOFT, GraphEditor, edit
from edgepack.quantization.arrays import Doubles, Floats
from edgepack.quantization.calibration import input_moments
from edgepack.quantization.embeddings import FEW_ROWS, ROWS_AT_ONCE, int8_embedding, is_embedding_lookup
from edgepack.quantization.layers import is_weight_matmul, matrix_inputs
from edgepack.quantization.rounding import (
    Grid,
    Rounding,
    asymmetric_grid,
    dequantized,
    gptq,
    round_to_nearest,
    with_fitted_scales,
)
from edgepack.records.recipe import ALL, Material, Note, Patterns

BITS = 4
SIGNED = 8
"""uint4 with a zero point is int4 with one that is less by this."""
Block = Literal[16, 32, 64, 128, 256]
METHODS: tuple[Rounding, ...] = ("nearest", "fitted", "gptq")


def int4(
    model: onnx.ModelProto,
    note: Note,
    material: Material,
    *,
    block: Block = 32,
    tables: Literal["int4", "int8", "float"] = "int4",
    table_block: Block = 32,
    rounding: Literal["best", "nearest", "fitted", "gptq"] = "best",
    layers: Patterns = ALL,
) -> onnx.ModelProto:
    """The model with int4 matrices, a scale and a zero point for each ``block`` inputs of an output channel.

    ``tables`` says what becomes of embedding tables, ``table_block`` how many elements of a row share a float16 scale.
    ``rounding`` is the way that loses least for each matrix, or always the same. ``layers`` are patterns of the
    matrices' names.
    """
    editor = edit(model)
    moments: dict[str, Doubles] = {}
    if rounding in ("best", "gptq"):
        moments = input_moments(model, matrix_inputs(editor, layers), material)
    methods = METHODS if rounding == "best" else (rounding,)
    for node in editor.take_nodes():
        if is_weight_matmul(editor, node, layers):
            weight = editor.array(node.input[1])
            grid, integers = least_lossy(weight, block, methods, moments.get(node.input[0]))
            _multiply(editor, node, grid, integers)
        elif tables != "float" and is_embedding_lookup(editor, node):
            rows, width = editor.array(node.input[0]).shape
            if tables == "int4" and rows >= FEW_ROWS and width % 2 == 0:
                _int4_table(editor, node, table_block)
            else:
                int8_embedding(editor, node)
        else:
            editor.keep(node)
    return editor.finish()


def least_lossy(
    weight: Floats, block: int, methods: tuple[Rounding, ...], moments: Doubles | None
) -> tuple[Grid, Floats]:
    """The grid and the whole numbers [inputs, outputs] that lose least: of the product when ``moments`` are known."""
    found = [_rounded(weight, block, method, moments) for method in methods]
    return min(found, key=lambda each: product_error(weight - dequantized(*each), moments))


def product_error(lost: Floats, moments: Doubles | None) -> float:
    """The squared error of a product whose weights are off by ``lost``, over the texts that ``moments`` are of."""
    wide = lost.astype(np.float64)
    return float((wide * (wide if moments is None else moments @ wide)).sum())


def _rounded(weight: Floats, block: int, method: Rounding, moments: Doubles | None) -> tuple[Grid, Floats]:
    grid = asymmetric_grid(weight, block=block, bits=BITS)
    if method == "nearest":
        return grid, round_to_nearest(grid, weight)
    grid = with_fitted_scales(grid, weight)
    if method == "fitted" or moments is None:
        return grid, round_to_nearest(grid, weight)
    return grid, gptq(grid, weight, moments)


def _multiply(editor: GraphEditor, node: onnx.NodeProto, grid: Grid, integers: Floats) -> None:
    vector, weight, output = node.input[0], node.input[1], node.output[0]
    inputs, outputs = integers.shape
    blocks = len(grid.scales)
    filled = np.zeros((blocks * grid.block, outputs), np.uint8)
    filled[:inputs] = integers
    packed = packed_nibbles(filled.T.reshape(outputs, blocks, grid.block))
    zeros = packed_nibbles(_even(grid.zeros.T.astype(np.uint8)))
    editor.add(
        "MatMulNBits",
        [
            vector,
            editor.weight(f"{weight}.int4", packed),
            editor.weight(f"{weight}.scales", grid.scales.T.ravel()),
            editor.weight(f"{weight}.zeros", zeros.ravel()),
        ],
        [output],
        name=node.name,
        domain=MICROSOFT,
        K=inputs,
        N=outputs,
        bits=BITS,
        block_size=grid.block,
    )


def _int4_table(editor: GraphEditor, node: onnx.NodeProto, block: int) -> None:
    """Rows are expanded when they are gathered; their scales are float16, and so is what comes out."""
    table, ids, output = node.input[0], node.input[1], node.output[0]
    floats = editor.array(table)
    parts = [
        _int4_rows(floats[start : start + ROWS_AT_ONCE], block)
        for start in range(0, len(floats), ROWS_AT_ONCE)
    ]
    integers, zeros, steps = (np.concatenate(each) for each in zip(*parts, strict=True))
    scales = editor.weight(f"{table}.scales", steps)
    gathered = editor.add(
        "GatherBlockQuantized",
        [
            _signed_nibbles(editor, f"{table}.int4", integers),
            ids,
            scales,
            _signed_nibbles(editor, f"{table}.zeros", zeros),
        ],
        [f"{output}.half"],
        name=f"{node.name}.half",
        domain=MICROSOFT,
        gather_axis=0,
        quantize_axis=1,
        block_size=block,
    )
    editor.add("Cast", [gathered], [output], name=node.name, to=TensorProto.FLOAT)


def _int4_rows(
    floats: Floats, block: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
    """Integers of rows [rows, width] from 0 to 15, and zero points and scales [rows, blocks]."""
    rows = np.ascontiguousarray(floats.T)
    grid = with_fitted_scales(asymmetric_grid(rows, block=block, bits=BITS), rows)
    grid = replace(grid, scales=grid.scales.astype(np.float16).astype(np.float32))
    integers = np.ascontiguousarray(round_to_nearest(grid, rows).T).astype(np.uint8)
    return integers, grid.zeros.T.astype(np.uint8), np.ascontiguousarray(grid.scales.T).astype(np.float16)


def _signed_nibbles(editor: GraphEditor, name: str, values: npt.NDArray[np.uint8]) -> str:
    """An int4 tensor of values from 0 to 15 less 8; two elements a byte, across the ends of rows."""
    flat = (values.astype(np.int16) - SIGNED).ravel().astype(np.uint8) & np.uint8(15)
    content = packed_nibbles(_even(flat)).tobytes()
    return editor.tensor(helper.make_tensor(name, TensorProto.INT4, values.shape, content, raw=True))


def packed_nibbles(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two neighbours of the last axis a byte, the first in the low half."""
    packed: npt.NDArray[np.uint8] = (values[..., 0::2] | (values[..., 1::2] << 4)).astype(np.uint8)
    return packed


def _even(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The last axis filled up to an even length."""
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, values.shape[-1] % 2)])
