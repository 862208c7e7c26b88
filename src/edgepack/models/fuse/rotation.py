"""Rotary positions as other exporters write them, x · cos + [-x₂, x₁] · sin, as edgepack's own graphs have them.

Those turn the halves one by one, by angles of [sequence, head / 2]; ``edgepack.models.fuse.attention`` makes RotaryEmbedding of that.
"""

from dataclasses import dataclass

import numpy as np
import onnx

from edgepack.models.fuse.attention import IndexedGraph, open_graph
from edgepack.models.graph.clean import without_dead_nodes
from edgepack.models.graph.observe import batches, observed

LAST = (-1, 3)
PLAIN = "plain."


@dataclass(frozen=True, kw_only=True)
class Turned:
    """One rotation: what is turned, by which angles, [batch or 1, 1, sequence, head] each, whose halves are the same."""

    vector: str
    cosine: str
    sine: str
    half: int
    last: onnx.NodeProto


def plain_rotation(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function with every such rotation by halves; the model itself where it has none."""
    graph = open_graph(model)
    found = {each.last.output[0]: each for node in model.graph.node if (each := _turned(graph, node))}
    feeds = batches(model)
    if not found or not feeds:
        return model
    names = sorted({name for each in found.values() for name in (each.cosine, each.sine)})
    seen = observed(model, names, feeds)
    alike = {name for name in names if all(_is_for_all_texts(each[name]) for each in seen)}
    found = {name: each for name, each in found.items() if {each.cosine, each.sine} <= alike}
    if not found:
        return model
    for node in graph.editor.take_nodes():
        match = found.get(node.output[0])
        if match is None:
            graph.editor.keep(node)
        else:
            _write(graph, match)
    return without_dead_nodes(graph.editor.finish())


def _is_for_all_texts(angles: np.ndarray) -> bool:
    """Whether every text is turned by the same angles, and both halves of a head too."""
    if angles.ndim != 4 or angles.shape[1] != 1:
        return False
    left, right = np.split(angles, 2, axis=-1)
    return bool(np.array_equal(left, right) and (angles == angles[:1]).all())


def _turned(graph: IndexedGraph, node: onnx.NodeProto) -> Turned | None:
    if node.op_type != "Add":
        return None
    left, right = (graph.made_by(value, "Mul") for value in node.input)
    if left is None or right is None:
        return None
    for straight, crossed in ((left, right), (right, left)):
        for vector, cosine in (straight.input, reversed(straight.input)):
            for across, sine in (crossed.input, reversed(crossed.input)):
                half = _half_across(graph, across, vector)
                if half:
                    return Turned(vector=vector, cosine=cosine, sine=sine, half=half, last=node)
    return None


def _half_across(graph: IndexedGraph, across: str, vector: str) -> int:
    """Half a head's numbers, when a value is [-x₂, x₁] of a vector [x₁, x₂]; otherwise 0."""
    concat = graph.made_by(across, "Concat")
    negated = graph.made_by(concat.input[0], "Neg") if concat is not None and len(concat.input) == 2 else None
    if concat is None or negated is None:
        return 0
    second, first = graph.made_by(negated.input[0], "Slice"), graph.made_by(concat.input[1], "Slice")
    if first is None or second is None or first.input[0] != vector or second.input[0] != vector:
        return 0
    begins, end = [graph.constant(each.input[1]) for each in (first, second)], graph.constant(first.input[2])
    axes = [graph.constant(each.input[3]) for each in (first, second)]
    if begins[0] is None or begins[1] is None or end is None or any(axis is None for axis in axes):
        return 0
    fits = int(begins[0][0]) == 0 and int(begins[1][0]) == int(end[0]) > 0
    return int(end[0]) if fits and all(int(axis[0]) in LAST for axis in axes if axis is not None) else 0


def _write(graph: IndexedGraph, match: Turned) -> None:
    editor, part = graph.editor, f"{PLAIN}{match.last.output[0]}."
    cosine, sine = (_halved(graph, angles, match.half) for angles in (match.cosine, match.sine))

    def add(operator: str, name: str, *inputs: str) -> str:
        return editor.add(operator, inputs, [part + name], name=part + name)

    zero, half, head = (ints(graph, number) for number in (0, match.half, 2 * match.half))
    first = add("Slice", "first", match.vector, zero, half, ints(graph, 3))
    second = add("Slice", "second", match.vector, half, head, ints(graph, 3))
    left = add(
        "Sub", "left", add("Mul", "first_cosine", first, cosine), add("Mul", "second_sine", second, sine)
    )
    right = add(
        "Add", "right", add("Mul", "second_cosine", second, cosine), add("Mul", "first_sine", first, sine)
    )
    editor.add("Concat", [left, right], list(match.last.output), name=f"{part}turned", axis=-1)


def _halved(graph: IndexedGraph, angles: str, half: int) -> str:
    """[sequence, head / 2] of [batch or 1, 1, sequence, head]."""
    editor, name = graph.editor, f"{PLAIN}{angles}.half"
    if editor.is_made(name):
        return name
    one = f"{PLAIN}{angles}.one"
    zero = editor.weight(f"{PLAIN}zero", np.array(0, np.int64))
    editor.add("Gather", [angles, zero], [f"{one}_text"], name=f"{one}_text", axis=0)
    editor.add("Gather", [f"{one}_text", zero], [one], name=one, axis=0)
    return editor.add("Slice", [one, ints(graph, 0), ints(graph, half), ints(graph, 1)], [name], name=name)


def ints(graph: IndexedGraph, *values: int) -> str:
    name = f"{PLAIN}int64_{'_'.join(map(str, values))}"
    return graph.editor.weight(name, np.array(values, np.int64))
