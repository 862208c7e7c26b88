"""Operators that came with opset 23 and later, each as nodes of opset 21.

RMSNormalization and RotaryEmbedding stand as the graphs that edgepack writes itself have them: the pass ``fuse`` makes
ONNX Runtime's own operators of these nodes.
"""

from typing import Any

import onnx
from onnx import helper

from edgepack.models.graph.facts import GraphFacts
from edgepack.models.graph.writer import GraphWriter

HEADS_FIRST = [0, 2, 1, 3]
TO_THE_END = 2**63 - 1


class CannotLowerError(Exception):
    """Refusal of a node that cannot be said with older operators; the text goes on after the operator's name."""


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Name → value."""
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def input_of(node: onnx.NodeProto, place: int) -> str:
    """An input's name; empty where it is left out."""
    return str(node.input[place]) if len(node.input) > place else ""


def swish(writer: GraphWriter, node: onnx.NodeProto, facts: GraphFacts) -> str:
    """x · sigmoid(alpha · x)."""
    return _swish(writer, node.input[0], attributes_of(node).get("alpha", 1.0))


def swiglu(writer: GraphWriter, node: onnx.NodeProto, facts: GraphFacts) -> str:
    """a · sigmoid(alpha · a) · b."""
    active = _swish(writer, node.input[0], attributes_of(node).get("alpha", 1.0))
    return writer.add("Mul", "gated", active, node.input[1])


def _swish(writer: GraphWriter, value: str, alpha: float) -> str:
    steep = value if alpha == 1.0 else writer.add("Mul", "steep", value, writer.scalar("alpha", alpha))
    return writer.add("Mul", "swish", value, writer.add("Sigmoid", "sigmoid", steep))


def rms_normalization(writer: GraphWriter, node: onnx.NodeProto, facts: GraphFacts) -> str:
    """x / √(mean of squares + ε), times scale."""
    given = attributes_of(node)
    vector, scale = node.input
    squares = writer.add("Pow", "squares", vector, writer.scalar("two", 2.0))
    axes = writer.ints(*_normalized_axes(given.get("axis", -1), vector, facts))
    mean = writer.add("ReduceMean", "mean", squares, axes, keepdims=1)
    floored = writer.add("Add", "floored", mean, writer.scalar("epsilon", given.get("epsilon", 1e-5)))
    inverse = writer.add("Div", "inverse", writer.scalar("one", 1.0), writer.add("Sqrt", "root", floored))
    return writer.add("Mul", "scaled", writer.add("Mul", "normed", vector, inverse), scale)


def _normalized_axes(axis: int, vector: str, facts: GraphFacts) -> range:
    """The last ones, counted from the end."""
    if axis < 0:
        return range(axis, 0)
    rank = facts.rank(vector)
    if rank is None:
        raise CannotLowerError(f"with axis {axis} of a value whose number of axes the file does not state")
    return range(axis - rank, 0)


def rotary_embedding(writer: GraphWriter, node: onnx.NodeProto, facts: GraphFacts) -> str:
    """Each head's numbers turned in pairs by the angle of their place."""
    given = attributes_of(node)
    vector = node.input[0]
    rank = facts.rank(vector)
    if rank not in (3, 4):
        raise CannotLowerError("of a value whose number of axes the file does not state")
    if rank == 3:
        heads = given.get("num_heads", 0)
        if not heads:
            raise CannotLowerError("without num_heads")
        split = writer.add("Reshape", "split", vector, writer.ints(0, 0, heads, -1))
        vector = writer.add("Transpose", "heads", split, perm=HEADS_FIRST)
    cosine, sine = (_angles(writer, node, place, facts) for place in (1, 2))
    half = (given.get("rotary_embedding_dim", 0) or 0) // 2 or facts.size(node.input[1], -1)
    if not half:
        raise CannotLowerError("by angles whose number the file does not state")
    turned = _turned(writer, vector, (cosine, sine), half, interleaved=bool(given.get("interleaved", 0)))
    if given.get("rotary_embedding_dim", 0):
        rest = writer.add(
            "Slice", "rest", vector, writer.ints(2 * half), writer.ints(TO_THE_END), writer.ints(3)
        )
        turned = writer.add("Concat", "whole", turned, rest, axis=-1)
    if rank == 3:
        back = writer.add("Transpose", "back", turned, perm=HEADS_FIRST)
        turned = writer.add("Reshape", "merged", back, writer.ints(0, 0, -1))
    return turned


def _angles(writer: GraphWriter, node: onnx.NodeProto, place: int, facts: GraphFacts) -> str:
    """Cosine or sine, to be multiplied with [batch, heads, sequence, half]."""
    cache, positions = node.input[place], input_of(node, 3)
    if positions:
        picked = writer.add("Gather", f"picked_{place}", cache, positions, axis=0)
    elif facts.size(cache, 0) == 1:
        # The same for all texts: [sequence, half], as fusions look for it.
        return writer.add("Squeeze", f"angles_{place}", cache, writer.ints(0))
    else:
        picked = cache
    return writer.add("Unsqueeze", f"angles_{place}", picked, writer.ints(1))


def _turned(
    writer: GraphWriter, vector: str, angles: tuple[str, str], half: int, *, interleaved: bool
) -> str:
    cosine, sine = angles
    axis = writer.ints(3)
    if interleaved:
        end, step = writer.ints(2 * half), writer.ints(2)
        first = writer.add("Slice", "first", vector, writer.ints(0), end, axis, step)
        second = writer.add("Slice", "second", vector, writer.ints(1), end, axis, step)
    else:
        first = writer.add("Slice", "first", vector, writer.ints(0), writer.ints(half), axis)
        second = writer.add("Slice", "second", vector, writer.ints(half), writer.ints(2 * half), axis)
    left = writer.add(
        "Sub",
        "left",
        writer.add("Mul", "first_cosine", first, cosine),
        writer.add("Mul", "second_sine", second, sine),
    )
    right = writer.add(
        "Add",
        "right",
        writer.add("Mul", "second_cosine", second, cosine),
        writer.add("Mul", "first_sine", first, sine),
    )
    if not interleaved:
        return writer.add("Concat", "turned", left, right, axis=-1)
    pair = writer.ints(4)
    pairs = writer.add(
        "Concat",
        "pairs",
        writer.add("Unsqueeze", "left_column", left, pair),
        writer.add("Unsqueeze", "right_column", right, pair),
        axis=-1,
    )
    return writer.add("Reshape", "turned", pairs, writer.ints(0, 0, 0, -1))
