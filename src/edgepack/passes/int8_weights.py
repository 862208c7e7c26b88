"""Weight-only int8: integer products whose activations have fourteen bits.

Weights as integers and everything else in float32 is Shrink Ray's method (https://github.com/usefulsensors/onnx_shrink_ray).
Written with DequantizeLinear it has two ends, both bad: ONNX Runtime's optimizer folds the weights back into float32, or a
minimal build, which cannot fold, expands them at every run. Here no weight is ever expanded. A token's activations become
two integers of seven bits, the second for what the first leaves: fourteen bits lose less than float32 GELU's own
approximation, and the integer product of each piece is exact. Seven bits because two products of 127 · 127 fit into the
16 bits in which processors without VNNI add them up, so that weights may use all of int8 and every processor agrees.

Scores of rerankers ask for more than that: with ``rest`` a second int8 matrix holds what rounding left of the weights, of few
distinct values, which compress well. It meets the first piece of the activations alone; beside that the second is too small to
matter.

Cost: the file has a quarter of the size; the nearest to full precision of the int8 passes; two integer products for each
matrix, 1.4 times as fast as float32 with VNNI and no faster without. With ``rest``, three products and two bytes a weight.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx

from edgepack.errors import TargetError
from edgepack.models.graph.editor import MICROSOFT, GraphEditor, edit
from edgepack.quantization.arrays import Doubles, Floats, Int8s
from edgepack.quantization.calibration import input_moments
from edgepack.quantization.embeddings import int8_embedding, is_embedding_lookup
from edgepack.quantization.int8 import int8_matrix, quantized_columns
from edgepack.quantization.layers import is_weight_matmul, matrix_inputs
from edgepack.quantization.per_token import largest_per_token
from edgepack.quantization.rounding import Grid, gptq
from edgepack.records.recipe import ALL, Material, Note, Patterns

MIDDLE = 64
"""What zero is among seven bits."""
LARGEST = 63
LARGEST_REST = LARGEST * 2 * LARGEST
"""The rest is at most half a step of the first piece, and has 63 steps of its own on each side."""
SMALLEST_RANGE = 1e-12
LARGEST_FINER = 254
"""What is left of a weight is at most half a step."""


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Two integers for each activation of a value, with what they are to be multiplied by."""

    coarse: str
    fine: str
    ranges: str
    """float32 [batch, sequence, 1]."""


def int8_weights(
    model: onnx.ModelProto,
    note: Note,
    material: Material,
    *,
    tables: bool = True,
    rounding: Literal["nearest", "gptq"] = "nearest",
    rest: int = 0,
    layers: Patterns = ALL,
) -> onnx.ModelProto:
    """The model with int8 matrices, one scale an output channel, and int8 tables, one scale a row.

    ``tables`` says whether embedding tables are taken too. ``rounding`` is to the nearest, or by ``gptq``, which
    loses less and takes calibration texts and half a minute. ``rest`` is how many finer steps, by a second matrix, a step
    of the weights is divided into. ``layers`` are patterns of the matrices' names.
    """
    if not 0 <= rest <= LARGEST_FINER:
        raise TargetError(f"pass int8-weights: rest is {rest}, expected 0 to {LARGEST_FINER}")
    editor = edit(model)
    moments: dict[str, Doubles] = {}
    if rounding == "gptq":
        moments = input_moments(model, matrix_inputs(editor, layers), material)
    for node in editor.take_nodes():
        if is_weight_matmul(editor, node, layers):
            floats = editor.array(node.input[1])
            values, scales = _integers(floats, moments.get(node.input[0]))
            left = np.clip(np.rint((floats / scales - values) * rest), -127, 127).astype(np.int8)
            _multiply(editor, node, (values, scales), (left, scales / np.float32(rest)) if rest else None)
        elif tables and is_embedding_lookup(editor, node):
            int8_embedding(editor, node)
        else:
            editor.keep(node)
    return editor.finish()


def _integers(values: Floats, moments: Doubles | None) -> tuple[Int8s, Floats]:
    """int8 [inputs, outputs] and scales [outputs]."""
    integers, scales = quantized_columns(values, "full")
    if moments is None:
        return integers, scales
    grid = Grid(scales=scales[None], zeros=np.zeros_like(scales[None]), block=len(values), low=-127, high=127)
    return gptq(grid, values, moments).astype(np.int8), scales


def _multiply(
    editor: GraphEditor,
    node: onnx.NodeProto,
    values: tuple[Int8s, Floats],
    rest: tuple[Int8s, Floats] | None,
) -> None:
    """Integers [inputs, outputs] with their scales [outputs]; ``rest`` is to be added to them."""
    vector, weight, output = node.input[0], node.input[1], node.output[0]
    matrix = int8_matrix(editor, weight, *values)
    middle = editor.weight("piece.middle", np.array(MIDDLE, np.uint8))
    pieces = _pieces(editor, vector)
    wanted = [
        ("coarse", pieces.coarse, _step(editor), matrix),
        ("fine", pieces.fine, _fine_step(editor), matrix),
    ]
    if rest is not None:
        wanted.append(("rest", pieces.coarse, _step(editor), int8_matrix(editor, f"{weight}.rest", *rest)))
    products = [
        editor.add(
            "MatMulIntegerToFloat",
            [piece, integers, step, columns, middle, zeros],
            [f"{output}.{name}"],
            name=f"{output}.{name}",
            domain=MICROSOFT,
        )
        for name, piece, step, (integers, columns, zeros) in wanted
    ]
    total = products[0]
    for name, product in zip(("unscaled", "whole"), products[1:], strict=False):
        total = editor.add("Add", [total, product], [f"{output}.{name}"], name=f"{output}.{name}")
    editor.add("Mul", [total, pieces.ranges], [output], name=node.name)


def _pieces(editor: GraphEditor, vector: str) -> Pieces:
    """uint8 [batch, sequence, hidden] twice; made once for all the matrices that the vectors meet."""
    name = f"{vector}.taken" if _is_product(editor, vector) else vector
    pieces = Pieces(coarse=f"{name}.coarse", fine=f"{name}.fine", ranges=f"{name}.range")
    if editor.is_made(pieces.coarse):
        return pieces
    middle = editor.weight("piece.middle", np.array(MIDDLE, np.uint8))
    floor = editor.weight("piece.floor", np.array(SMALLEST_RANGE, np.float32))
    sizes = editor.add("Abs", [vector], [f"{name}.sizes"], name=f"{name}.sizes")
    largest = largest_per_token(editor, sizes, f"{name}.largest")
    editor.add("Max", [largest, floor], [pieces.ranges], name=pieces.ranges)
    shares = editor.add("Div", [vector, pieces.ranges], [f"{name}.shares"], name=f"{name}.shares")
    step = _step(editor)
    editor.add("QuantizeLinear", [shares, step, middle], [pieces.coarse], name=pieces.coarse)
    covered = editor.add(
        "DequantizeLinear", [pieces.coarse, step, middle], [f"{name}.covered"], name=f"{name}.covered"
    )
    rest = editor.add("Sub", [shares, covered], [f"{name}.rest"], name=f"{name}.rest")
    editor.add("QuantizeLinear", [rest, _fine_step(editor), middle], [pieces.fine], name=pieces.fine)
    return pieces


def _is_product(editor: GraphEditor, vector: str) -> bool:
    """Whether a matrix makes the vectors, as that of a Dense module without bias: the parts of its product have its name already."""
    made_by = editor.producer(vector)
    return made_by is not None and is_weight_matmul(editor, made_by, ALL)


def _step(editor: GraphEditor) -> str:
    return editor.weight("piece.step", np.array(1 / LARGEST, np.float32))


def _fine_step(editor: GraphEditor) -> str:
    return editor.weight("piece.fine_step", np.array(1 / LARGEST_REST, np.float32))
