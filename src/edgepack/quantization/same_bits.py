"""Graphs whose values are the same to the bit on every processor with AVX2, in operators that are.

Of the operators of encoders that were tried ONNX Runtime 1.21.0 computes Softmax alone in another order with AVX-512, and MultiHeadAttention, which has it
inside; without a mask that one takes blocks of the size of a cache, too. Recipes round by such values, and would write other integers.
"""

import numpy as np
import onnx
from onnx import TensorProto

from edgepack.models.graph.editor import MICROSOFT, edit
from edgepack.models.graph.facts import GraphFacts, facts_of
from edgepack.models.graph.writer import GraphWriter
from edgepack.models.lower.operators import HEADS_FIRST, TO_THE_END, attributes_of, input_of

QUERY, KEY, VALUE, BIAS, MASK, ADDED = range(6)
KEY_TURNED = [0, 2, 3, 1]
MASKED = -10000.0
"""What a mask adds to the scores of padding where the node does not say it."""


def same_bits(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which both are written with other operators; attention of a form that ``fuse`` does not make stays as it is."""
    editor, facts = edit(model), facts_of(model)
    for node in editor.take_nodes():
        writer = GraphWriter(prefix=f"{node.output[0]}.written.")
        if node.op_type == "Softmax" and node.domain != MICROSOFT:
            _softmax(writer, node, editor.opset)
        elif node.op_type == "MultiHeadAttention" and _is_known(node, facts, editor.opset):
            _attention(writer, node, editor.opset)
        else:
            editor.keep(node)
            continue
        writer.nodes[-1].output[0] = node.output[0]
        for written in writer.nodes:
            editor.keep(written)
        for tensor in writer.initializers.values():
            editor.tensor(tensor)
    return editor.finish()


def _is_known(node: onnx.NodeProto, facts: GraphFacts, opset: int) -> bool:
    """Whether query, key and value are apart, [batch, sequence, hidden], with a mask [batch, sequence] or none, and nothing is kept."""
    vectors = [input_of(node, place) for place in (QUERY, KEY, VALUE)]
    return (
        all(vectors)
        and all(facts.rank(each) in (None, 3) for each in vectors)
        and (not input_of(node, MASK) or facts.rank(node.input[MASK]) == 2)
        and not any(node.input[ADDED + 1 :])
        and not any(node.output[1:])
        and not attributes_of(node).get("unidirectional")
        and opset >= 10  # before that Slice took attributes
    )


def _softmax(writer: GraphWriter, node: onnx.NodeProto, opset: int) -> None:
    axis, scores = attributes_of(node).get("axis"), node.input[0]
    if opset >= 13:
        _shares(writer, scores, -1 if axis is None else axis, opset)
        return
    # Over all axes from this one on.
    flat = writer.add("Flatten", "flat", scores, axis=1 if axis is None else axis)
    shares = _shares(writer, flat, 1, opset)
    writer.add("Reshape", "shaped", shares, writer.add("Shape", "shape", scores))


def _shares(writer: GraphWriter, scores: str, axis: int, opset: int) -> str:
    def reduced(operator: str, value: str, axes_are_input_from: int) -> str:
        if opset >= axes_are_input_from:
            return writer.add(operator, operator, value, writer.ints(axis))
        return writer.add(operator, operator, value, axes=[axis])

    lowered = writer.add("Sub", "lowered", scores, reduced("ReduceMax", scores, 18))
    powers = writer.add("Exp", "powers", lowered)
    return writer.add("Div", "shares", powers, reduced("ReduceSum", powers, 13))


def _attention(writer: GraphWriter, node: onnx.NodeProto, opset: int) -> None:
    """softmax(query · key · scale + added + mask) · value, by head."""
    given = attributes_of(node)
    vectors = list(node.input[: VALUE + 1])
    if bias := input_of(node, BIAS):
        hidden = _size(writer, "hidden", vectors[QUERY], 2)
        edges = [writer.ints(0), hidden, writer.add("Add", "both", hidden, hidden), writer.ints(TO_THE_END)]
        parts = [writer.add("Slice", f"bias_{at}", bias, *edges[at : at + 2]) for at in range(3)]
        vectors = [
            writer.add("Add", f"biased_{at}", vector, part)
            for at, (vector, part) in enumerate(zip(vectors, parts, strict=True))
        ]
    query, key, value = (
        writer.add("Reshape", f"split_{at}", vector, writer.ints(0, 0, given["num_heads"], -1))
        for at, vector in enumerate(vectors)
    )
    product = writer.add(
        "MatMul",
        "product",
        writer.add("Transpose", "query", query, perm=HEADS_FIRST),
        writer.add("Transpose", "key", key, perm=KEY_TURNED),
    )
    if scale := given.get("scale"):
        scores = writer.add("Mul", "scores", product, writer.scalar("scale", scale))
    else:
        head = writer.add("Cast", "head", _size(writer, "head_size", query, 3), to=TensorProto.FLOAT)
        scores = writer.add("Div", "scores", product, writer.add("Sqrt", "root", head))
    added = []
    if mask := input_of(node, MASK):
        shown = writer.add("Greater", "shown", mask, writer.weight("none", np.array(0, np.int32)))
        hidden_by = writer.scalar("masked", given.get("mask_filter_value", MASKED))
        padding = writer.add("Where", "padding", shown, writer.scalar("seen", 0.0), hidden_by)
        added.append(writer.add("Reshape", "row", padding, writer.ints(0, 1, 1, -1)))
    if input_of(node, ADDED):
        added.append(node.input[ADDED])
    for at, each in enumerate(added):
        scores = writer.add("Add", f"masked_{at}", scores, each)
    context = writer.add(
        "MatMul",
        "context",
        _shares(writer, scores, -1, opset),
        writer.add("Transpose", "value", value, perm=HEADS_FIRST),
    )
    turned = writer.add("Transpose", "turned", context, perm=HEADS_FIRST)
    writer.add("Reshape", "merged", turned, writer.ints(0, 0, -1))


def _size(writer: GraphWriter, name: str, value: str, axis: int) -> str:
    shape = writer.add("Shape", f"{name}_of", value)
    return writer.add("Gather", name, shape, writer.ints(axis))
