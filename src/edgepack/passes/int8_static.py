"""Static int8: ranges of activations are measured on calibration texts, so that nothing is measured on the device.

After https://arxiv.org/abs/1712.05877, as
https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html has it: QuantizeLinear/DequantizeLinear
pairs, MinMax calibration, one scale for each output channel of a matrix; ONNX Runtime makes one integer product of each
group when the model is converted. Percentile calibration is not offered: it ruins BERT
(https://github.com/microsoft/onnxruntime/issues/10571). A text's vector is the same in any batch.

Cost: the file has a quarter of the size; the fastest of the int8 passes, and further from full precision than
``int8-dynamic`` with a scale a token.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx

from edgepack.models.graph.editor import MICROSOFT, GraphEditor, edit
from edgepack.quantization.calibration import calibration_feeds
from edgepack.quantization.embeddings import int8_embedding, is_embedding_lookup
from edgepack.quantization.int8 import WeightRange, int8_matrix, quantized_columns
from edgepack.quantization.layers import ENCODER, bias_input, is_weight_matmul, matrix_inputs
from edgepack.quantization.observers import minmax_ranges
from edgepack.records.recipe import ALL, Material, Note, Patterns

STEPS = 255
UNBIASED = {"BiasGelu": ("Gelu", MICROSOFT), "Add": ("Identity", "")}
"""What becomes of an operator whose bias has been added already; others only lose that input."""
PASSED_ON = ("Mul", "Reshape", "Transpose")
"""What stands between such an operator and a product: smoothing, and heads that are put side by side."""


@dataclass(frozen=True, kw_only=True)
class StaticQuantizer:
    """One run of the pass."""

    editor: GraphEditor
    ranges: dict[str, tuple[float, float]]
    weight_range: WeightRange
    biased: set[str] = field(default_factory=set)
    """Values to which the bias that their taker would add has been added already."""


def int8_static(
    model: onnx.ModelProto,
    note: Note,
    material: Material,
    *,
    tables: bool = True,
    weight_range: WeightRange = "paired",
    activations: Literal["all", "steady"] = "all",
    form: Literal["qdq", "integer"] = "qdq",
    layers: Patterns = ALL,
) -> onnx.ModelProto:
    """The model with int8 matrices, activations quantized with static ranges, and int8 embedding tables.

    ``tables`` says whether those are. ``activations`` are all, or the steady ones: then only the products of what a
    normalization or attention made are taken; the others' ranges differ from token to token, and a dynamic pass that
    comes after serves them better. ``form`` is ``qdq`` (QuantizeLinear/DequantizeLinear pairs, which every execution
    provider understands) or ``integer`` (ONNX Runtime's own integer product, which adds the bias, too).
    ``weight_range`` is explained at its type, ``layers`` are patterns of the matrices' names.
    """
    editor = edit(model)
    chosen = {
        value
        for value in matrix_inputs(editor, layers).values()
        if activations == "all" or _is_steady(editor, value)
    }
    if not chosen:
        note("no activations to quantize")
    found = minmax_ranges(model, sorted(chosen), calibration_feeds(model, material)) if chosen else {}
    run = StaticQuantizer(editor=editor, ranges=found, weight_range=weight_range)
    for node in editor.take_nodes():
        if is_weight_matmul(editor, node, layers) and node.input[0] in chosen:
            (_multiply if form == "qdq" else _multiply_integers)(run, node)
        elif tables and is_embedding_lookup(editor, node):
            int8_embedding(editor, node)
        else:
            _keep(run, node)
    return editor.finish()


def _is_steady(editor: GraphEditor, value: str) -> bool:
    made_by = editor.producer(value)
    while made_by is not None and made_by.op_type in PASSED_ON:
        made_by = editor.producer(made_by.input[0])
    if made_by is None:
        return False
    mixes = made_by.op_type in ("MatMul", "FusedMatMul") and made_by.input[1] not in editor.weights
    return mixes or made_by.op_type in ENCODER


def _multiply(run: StaticQuantizer, node: onnx.NodeProto) -> None:
    editor, weight = run.editor, node.input[1]
    values, scales = quantized_columns(editor.array(weight), run.weight_range)
    parts, output = int8_matrix(editor, weight, values, scales), f"{node.output[0]}.weights"
    matrix = editor.add("DequantizeLinear", parts, [output], name=f"{node.name}.weights", axis=1)
    editor.add("MatMul", [_quantized(run, node.input[0]), matrix], list(node.output), name=node.name)


def _multiply_integers(run: StaticQuantizer, node: onnx.NodeProto) -> None:
    editor, weight, output = run.editor, node.input[1], node.output[0]
    values, scales = quantized_columns(editor.array(weight), run.weight_range)
    vector, step, zero = _integers(run, node.input[0])
    takers = editor.consumers(output)
    place = bias_input(editor, takers[0], output) if len(takers) == 1 else None
    editor.add(
        "MatMulIntegerToFloat",
        [
            vector,
            editor.weight(f"{weight}.int8", values),
            step,
            editor.weight(f"{weight}.scales", scales),
            zero,
            # No zero points for the weights: zeros would be multiplied and added for every output.
            *(() if place is None else ("", takers[0].input[place])),
        ],
        [output],
        name=node.name,
        domain=MICROSOFT,
    )
    if place is not None:
        run.biased.add(output)


def _keep(run: StaticQuantizer, node: onnx.NodeProto) -> None:
    """The node, without the bias that has been added to what it takes."""
    value = next((value for value in node.input if value in run.biased), None)
    if value is None:
        run.editor.keep(node)
        return
    changed = deepcopy(node)
    place = bias_input(run.editor, node, value)
    assert place is not None
    del changed.input[place]
    if node.op_type in UNBIASED:
        changed.op_type, changed.domain = UNBIASED[node.op_type]
    run.editor.keep(changed)


def _integers(run: StaticQuantizer, value: str) -> tuple[str, str, str]:
    """The value as uint8, its step and zero point; made once for all the matrices that it meets."""
    low, high = min(run.ranges[value][0], 0.0), max(run.ranges[value][1], 0.0)
    size = (high - low) / STEPS or 1.0
    step = run.editor.weight(f"{value}.step", np.array(size, np.float32))
    zero = run.editor.weight(f"{value}.zero", np.array(round(-low / size), np.uint8))
    quantized = f"{value}.uint8"
    if not run.editor.is_made(quantized):
        run.editor.add("QuantizeLinear", [value, step, zero], [quantized], name=f"{value}.quantize")
    return quantized, step, zero


def _quantized(run: StaticQuantizer, value: str) -> str:
    """The value as what uint8 leaves of it; made once for all the matrices that it meets."""
    editor, covered = run.editor, f"{value}.covered"
    if editor.is_made(covered):
        return covered
    return editor.add("DequantizeLinear", [*_integers(run, value)], [covered], name=f"{value}.dequantize")
