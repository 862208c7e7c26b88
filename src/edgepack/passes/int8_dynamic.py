"""Dynamic int8: weights and embedding tables become int8, activations are quantized while the model runs.

After https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html, with a scale for every token as in
ZeroQuant (https://arxiv.org/abs/2206.01861). It is written out here, and not left to ``onnxruntime.quantization``, for
three reasons. That quantizer imports torch where torch is installed. It gives an embedding table one scale for all of its
rows. And it gives a tensor of activations one scale, so that a text's vector depends on its neighbours in the batch.

Cost: the file has a quarter of the size; about 2.4 times as fast as float32 with VNNI, 1.5 times without.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import onnx

from edgepack.models.graph.editor import MICROSOFT, GraphEditor, edit, with_input
from edgepack.quantization.arrays import Doubles
from edgepack.quantization.calibration import calibration_feeds, input_moments, more_texts, varied_feeds
from edgepack.quantization.embeddings import FEW_ROWS, int8_embedding, is_embedding_lookup
from edgepack.quantization.entropy_coded import entropy_coded_columns
from edgepack.quantization.few_values import few_values
from edgepack.quantization.importance import Importance, importance
from edgepack.quantization.int8 import LARGEST, WeightRange, int8_matrix, quantized_columns
from edgepack.quantization.layers import bias_input, is_chosen, is_weight_matmul, matrix_inputs
from edgepack.quantization.per_token import largest_per_token
from edgepack.quantization.sensitivity import step_factors
from edgepack.records.recipe import ALL, Material, Note, Patterns

Activations = Literal["token", "tensor"]
Range = Literal["auto", "paired", "full", "reduced"]

VNNI = ("avx_vnni", "avx_vnni_int8", "avx512_vnni", "amx", "dotprod", "i8mm")
"""Instruction sets of which a device that has one adds up four products without clipping."""
VARIANTS = 10
"""Of each calibration text, for rounding that makes up for what was rounded before."""
DIFFERENTIATED = 3
"""The same for gradients, which have more texts."""
TRIED, FEWEST = 1728, 8
"""Runs of the model in which matrices are tried, about, and texts at least for each: 48 for the 36 matrices of
all-MiniLM-L6-v2, 12 for the 144 of bge-large, whose runs take ten times as long."""
RARITY = 0.25
MIDDLE = 128
"""What zero is among uint8 activations that may be negative."""
HIGHEST = 255
LOWEST = {"BiasGelu": 0.1701, "Gelu": 0.1701, "FastGelu": 0.1701, "Relu": 0.0}
"""Operator → how far below zero what it makes can be."""


@dataclass(frozen=True, kw_only=True)
class DynamicQuantizer:
    """One run of the pass."""

    editor: GraphEditor
    activations: Activations
    weight_range: WeightRange
    steps: float
    moments: Mapping[str, Doubles]
    """Matrix → Xᵀ·X of what it takes, or with gradients the moments of its inputs."""
    importances: Importance | None = None
    """With gradients also those of its outputs, and of tables' columns."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """Matrix → how many times as wide its steps are."""
    rarity: float = 0.0
    bit_cost: float = 0.0
    corrections: dict[str, np.ndarray] = field(default_factory=dict)
    """Value → what is still to be added to it, float32 [outputs]; whoever takes the value adds it to its bias."""


def int8_dynamic(
    model: onnx.ModelProto,
    note: Note,
    material: Material | None = None,
    *,
    activations: Activations = "token",
    tables: bool = True,
    weight_range: Range = "paired",
    steps: float = 0.0,
    table_steps: float = 0.0,
    weighed: bool = False,
    rarity: float = 0.0,
    gradients: bool = False,
    bit_cost: float = 0.0,
    layers: Patterns = ALL,
) -> onnx.ModelProto:
    """The model with int8 weights, one scale for each output channel of a matrix and each row of an embedding table.

    ``activations`` is ``token`` (one scale for each token: the same for any batch) or ``tensor`` (one for all: a little
    faster, and a text's vector depends on the batch). ``tables`` says whether embedding tables are quantized too.
    ``weight_range`` is explained at its type; ``auto`` is ``full`` where the target names an instruction set with VNNI
    and ``reduced`` elsewhere. With ``steps``, a column's standard deviation is that many integers, which are rounded with
    calibration texts, and with ``table_steps`` a table's row's (tables of less than 1024 rows keep all of int8): fewer
    distinct integers, for downloads that are compressed. ``weighed`` makes steps wider where that costs the vectors least:
    of matrices by trying each, of rows by how rare their tokens are. ``rarity`` is the power of a token's rank that the steps of its row
    follow, 0.25 where it is 0 and ``weighed`` is said. ``gradients`` rounds matrices and tables so that the vectors mind it least, by gradients
    of the calibration texts' vectors, for which some operators have no rule; with ``bit_cost`` they go to a smaller integer where the bits that
    this saves, at so many squared steps each, are worth more than what is lost. ``layers`` are patterns of the matrices' names.
    """
    material = material or Material()
    importances: Importance | None = None
    moments: Mapping[str, Doubles] = {}
    if steps and gradients:
        material = replace(material, texts=material.texts or more_texts())
        importances = _importance(model, material, layers)
        moments = importances.inputs
    elif steps:
        moments = _moments(model, material, layers, variants=VARIANTS if weighed else 0)
    run = DynamicQuantizer(
        editor=edit(model),
        activations=activations,
        weight_range=_weight_range(weight_range, material.isa),
        steps=steps,
        moments=moments,
        importances=importances,
        factors=_step_factors(model, moments, steps, material) if weighed and steps else {},
        rarity=rarity or (RARITY if weighed else 0.0),
        bit_cost=bit_cost,
    )
    matrices = matrix_inputs(run.editor, layers)
    if kept := sum(few_values(run.editor.array(each)) is not None for each in matrices):
        note(f"{kept} of {len(matrices)} matrices have at most 15 values a column, and keep them")
    with material.progress("round matrices", len(matrices)) as advance:
        for node in run.editor.take_nodes():
            if is_weight_matmul(run.editor, node, layers):
                _quantize_matmul(run, node)
                advance()
            elif node.op_type == "Attention" and activations == "tensor" and is_chosen(node.input[1], layers):
                _quantize_attention(run, node)
            elif tables and is_embedding_lookup(run.editor, node):
                rows = len(run.editor.array(node.input[0]))
                int8_embedding(
                    run.editor,
                    node,
                    steps=table_steps if rows >= FEW_ROWS else 0.0,
                    rarity=run.rarity,
                    tokenizer=material.source.tokenizer if material.source else None,
                    moments=importances.columns.get(node.input[0]) if importances and table_steps else None,
                    bit_cost=bit_cost,
                )
            else:
                run.editor.keep(_corrected(run, node))
    return run.editor.finish()


def _moments(
    model: onnx.ModelProto, material: Material, layers: Patterns, *, variants: int
) -> Mapping[str, Doubles]:
    """Xᵀ·X of what each matrix takes that is rounded, over the calibration texts."""
    editor = edit(model)
    takes = {
        weight: value
        for weight, value in matrix_inputs(editor, layers).items()
        if few_values(editor.array(weight)) is None
    }
    if not takes:
        return {}
    found = input_moments(model, takes, material, variants=variants)
    return {weight: found[value] for weight, value in takes.items()}


def _importance(model: onnx.ModelProto, material: Material, layers: Patterns) -> Importance:
    """How much the calibration texts' vectors mind an error of each weight: minutes of work, and the same for any steps."""
    texts = json.dumps([material.texts, layers]).encode()
    digest = hashlib.sha256(model.SerializeToString(deterministic=True) + texts).hexdigest()
    if isinstance(found := material.kept.get(digest), Importance):
        return found
    feeds = list(varied_feeds(model, material, variants=DIFFERENTIATED))
    with material.progress("differentiate calibration texts", len(feeds)) as advance:

        def advanced(texts: int) -> None:
            for _ in range(texts):
                advance()

        found = importance(model, feeds, layers, advance=advanced)
    material.kept[digest] = found
    return found


def _step_factors(
    model: onnx.ModelProto, moments: Mapping[str, Doubles], steps: float, material: Material
) -> Mapping[str, float]:
    """How many times as wide the steps of each matrix are, by what each costs the vectors of some calibration texts."""
    feeds = list(calibration_feeds(model, material))
    editor = edit(model)
    rounded = {}
    with material.progress("try matrices", 2 * len(moments)) as advance:
        for name, products in moments.items():
            values, scales = entropy_coded_columns(editor.array(name), steps, products)
            rounded[name] = values * scales
            advance()
        texts = max(FEWEST, TRIED // max(1, len(rounded)))
        chosen = feeds[:: max(1, len(feeds) // texts)]
        return step_factors(model, rounded, chosen, advance=advance) if rounded else {}


def _weight_range(wanted: Range, isa: Sequence[str]) -> WeightRange:
    if wanted == "auto":
        return "full" if any(each.lower() in VNNI for each in isa) else "reduced"
    return wanted


def _quantize_matmul(run: DynamicQuantizer, node: onnx.NodeProto) -> None:
    if run.activations == "tensor":
        _matmul_by_tensor(run, node)
    else:
        _matmul_by_token(run, node, _lowest(run, node))


def _matmul_by_tensor(run: DynamicQuantizer, node: onnx.NodeProto) -> None:
    vector, weight = node.input
    matrix, scales, zeros = _quantized_matrix(run, weight)
    quantized, scale, zero = _quantized_tensor(run.editor, vector)
    run.editor.add(
        "MatMulIntegerToFloat",
        [quantized, matrix, scale, scales, zero, zeros],
        list(node.output),
        name=node.name,
        domain=MICROSOFT,
    )


def _matmul_by_token(run: DynamicQuantizer, node: onnx.NodeProto, lowest: float | None) -> None:
    """``lowest`` is how far below zero the activations can be, when all 256 steps can be spent above that."""
    editor = run.editor
    vector, weight, output = node.input[0], node.input[1], node.output[0]
    matrix, scales, zeros = _quantized_matrix(run, weight)
    quantized, ranges, step, zero = _quantized_tokens(editor, vector, lowest)
    product = editor.add(
        "MatMulIntegerToFloat",
        [quantized, matrix, step, scales, zero, zeros],
        [f"{output}.unscaled"],
        name=f"{node.name}.unscaled",
        domain=MICROSOFT,
    )
    editor.add("Mul", [product, ranges], [output], name=node.name)
    if lowest:
        columns = editor.array(matrix).astype(np.float32) * editor.array(scales)
        run.corrections[output] = (-lowest * columns.sum(axis=0, dtype=np.float64)).astype(np.float32)


def _lowest(run: DynamicQuantizer, node: onnx.NodeProto) -> float | None:
    """How far below zero a product's activations can be, when that is known and the product can be corrected for it."""
    made_by = run.editor.producer(node.input[0])
    takers = run.editor.consumers(node.output[0])
    if made_by is None or made_by.op_type not in LOWEST or len(takers) != 1:
        return None
    if bias_input(run.editor, takers[0], node.output[0]) is None:
        return None
    return LOWEST[made_by.op_type]


def _corrected(run: DynamicQuantizer, node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with what its input still lacks added to its bias."""
    for value in node.input:
        if value in run.corrections:
            place = bias_input(run.editor, node, value)
            assert place is not None
            bias = run.editor.array(node.input[place]) + run.corrections[value]
            return with_input(node, place, run.editor.weight(f"{value}.bias", bias))
    return node


def _quantize_attention(run: DynamicQuantizer, node: onnx.NodeProto) -> None:
    vector, weight, bias, mask = node.input[:4]
    matrix, scales, zeros = _quantized_matrix(run, weight)
    quantized, scale, zero = _quantized_tensor(run.editor, vector)
    run.editor.add(
        "QAttention",
        [quantized, matrix, bias, scale, scales, mask, zero, zeros],
        list(node.output),
        name=node.name,
        domain=MICROSOFT,
        attributes=list(node.attribute),
    )


def _quantized_matrix(run: DynamicQuantizer, weight: str) -> tuple[str, str, str]:
    """A matrix [inputs, outputs] as int8, its scales [outputs] and its zero points, which are zero."""
    floats = run.editor.array(weight)
    if run.steps:
        values, scales = entropy_coded_columns(
            floats,
            run.steps / run.factors.get(weight, 1.0),
            run.moments.get(weight),
            run.importances.outputs.get(weight) if run.importances else None,
            bit_cost=run.bit_cost,
        )
    else:
        values, scales = quantized_columns(floats, run.weight_range)
    return int8_matrix(run.editor, weight, values, scales)


def _quantized_tensor(editor: GraphEditor, vector: str) -> tuple[str, str, str]:
    """uint8 values, their one scale and zero point; made once for all the matrices that the tensor meets."""
    names = (f"{vector}.tensor.uint8", f"{vector}.tensor.scale", f"{vector}.tensor.zero")
    if not editor.is_made(names[0]):
        editor.add("DynamicQuantizeLinear", [vector], list(names), name=f"{vector}.tensor")
    return names


def _quantized_tokens(editor: GraphEditor, vector: str, lowest: float | None) -> tuple[str, str, str, str]:
    """uint8 values [batch, sequence, hidden], every token's range [batch, sequence, 1], their step and zero point.

    Made once for all the matrices that the vectors meet in the same way.
    """
    signed = lowest is None
    kind = "signed" if signed else "unsigned"
    step = editor.weight(f"token.step_{kind}", _float(1 / LARGEST if signed else 1 / HIGHEST))
    zero = editor.weight(f"token.zero_{kind}", np.array(MIDDLE if signed else 0, np.uint8))
    name = f"{vector}.{kind}"
    quantized, ranges = f"{name}.uint8", f"{name}.range"
    if editor.is_made(quantized):
        return quantized, ranges, step, zero
    if lowest:
        below = editor.weight(f"token.lowest_{lowest}", _float(lowest))
        vector = editor.add("Add", [vector, below], [f"{name}.raised"], name=f"{name}.raised")
    sizes = editor.add("Abs", [vector], [f"{name}.sizes"], name=f"{name}.sizes") if signed else vector
    largest = largest_per_token(editor, sizes, f"{name}.largest")
    editor.add("Max", [largest, editor.weight("token.floor", _float(1e-12))], [ranges], name=ranges)
    shares = editor.add("Div", [vector, ranges], [f"{name}.shares"], name=f"{name}.shares")
    editor.add("QuantizeLinear", [shares, step, zero], [quantized], name=quantized)
    return quantized, ranges, step, zero


def _float(value: float) -> np.ndarray:
    return np.array(value, np.float32)
