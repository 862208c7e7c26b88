"""One matrix for several projections, as one each: edgepack's own graphs have it so, and fusions look for it.

PyTorch's ModernBERT multiplies once for query, key and value, and once for both parts of a gated unit, and takes the product apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from edgepack.models.fuse.attention import IndexedGraph, open_graph
from edgepack.models.fuse.rotation import PLAIN, ints
from edgepack.models.graph.clean import without_dead_nodes

UNTURNED = [0, 1, 2, 3]


@dataclass(frozen=True, kw_only=True)
class Joint:
    """A product, [batch, sequence, columns]."""

    vector: str
    weight: np.ndarray
    bias: np.ndarray | None
    name: str
    """The matrix's."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some of its columns: which of how many parts, and what becomes of them."""

    joint: Joint
    number: int
    parts: int
    heads: tuple[int, int] | None = None
    """Heads and numbers of a head, where the columns are split so."""
    order: Sequence[int] = ()
    """Of [batch, sequence, heads, head]."""


def plain_products(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function with a product for every part; the model itself where none is taken apart."""
    graph = open_graph(model)
    parts: dict[str, Part] = {}
    for node in model.graph.node:
        parts |= _halves(graph, node) if node.op_type == "Split" else {}
        parts |= _of_heads(graph, node) if node.op_type == "Reshape" else {}
    if not parts:
        return model
    for node in graph.editor.take_nodes():
        mine = [value for value in node.output if value in parts]
        if not mine:
            graph.editor.keep(node)
        for value in mine:
            _write(graph, parts[value], value)
    return without_dead_nodes(graph.editor.finish())


def _joint(graph: IndexedGraph, value: str) -> Joint | None:
    bias = None
    added = graph.made_by(value, "Add")
    if added is not None:
        for product, other in (added.input, reversed(added.input)):
            if graph.made_by(product, "MatMul") is not None and graph.editor.is_vector(other):
                value, bias = product, graph.constant(other)
                break
    product_node = graph.made_by(value, "MatMul")
    if product_node is None or not graph.editor.is_matrix(product_node.input[1]):
        return None
    vector, name = product_node.input
    return Joint(vector=vector, weight=graph.editor.array(name), bias=bias, name=name)


def _halves(graph: IndexedGraph, split: onnx.NodeProto) -> dict[str, Part]:
    """Equal parts along the last axis of a product."""
    joint = _joint(graph, split.input[0])
    if joint is None or _integer(split, "axis", 0) not in (-1, 2) or not _is_even(graph, split):
        return {}
    count = len(split.output)
    if joint.weight.shape[1] % count:
        return {}
    return {value: Part(joint=joint, number=at, parts=count) for at, value in enumerate(split.output)}


def _is_even(graph: IndexedGraph, split: onnx.NodeProto) -> bool:
    sizes = graph.constant(split.input[1]) if len(split.input) > 1 and split.input[1] else np.ones(1)
    return sizes is not None and len(set(sizes.tolist())) == 1


def _of_heads(graph: IndexedGraph, reshape: onnx.NodeProto) -> dict[str, Part]:
    """Parts of [batch, sequence, parts, heads, head]: every one, or none at all."""
    sizes, joint = graph.constant(reshape.input[1]), _joint(graph, reshape.input[0])
    if joint is None or sizes is None or len(sizes) != 5 or min(sizes[2:]) <= 0:
        return {}
    count, heads, head = (int(size) for size in sizes[2:])
    if count * heads * head != joint.weight.shape[1]:
        return {}
    value, axes = reshape.output[0], [0, 1, 2, 3, 4]
    turned = graph.taker(value, "Transpose")
    if turned is not None:
        value, axes = turned.output[0], graph.perm(turned)
    place = axes.index(2)
    order = [axis - (axis > 2) for axis in axes if axis != 2]
    picked = [_picked(graph, taker, place, value) for taker in graph.takers.get(value, [])]
    found = {name: number for each in picked for name, number in each.items()}
    if not all(picked):
        return {}
    return {
        name: Part(joint=joint, number=number, parts=count, heads=(heads, head), order=order)
        for name, number in found.items()
    }


def _picked(graph: IndexedGraph, node: onnx.NodeProto, place: int, value: str) -> dict[str, int]:
    """Parts that a node takes of the axis of parts, without that axis: value → the part's number."""
    if (
        node.op_type == "Gather"
        and node.input[0] == value
        and _integer(node, "axis", 0) in (place, place - 5)
    ):
        index = graph.constant(node.input[1])
        return {node.output[0]: int(index)} if index is not None and index.ndim == 0 else {}
    if node.op_type == "Slice" and len(node.input) > 3:
        begin, end, axis = (graph.constant(name) for name in node.input[1:4])
        if begin is None or end is None or axis is None or int(axis[0]) not in (place, place - 5):
            return {}
        squeezed = graph.taker(node.output[0], "Squeeze")
        fits = squeezed is not None and int(end[0]) - int(begin[0]) == 1
        return {squeezed.output[0]: int(begin[0])} if fits and squeezed is not None else {}
    if node.op_type == "Split" and _integer(node, "axis", 0) in (place, place - 5) and _is_even(graph, node):
        squeezed_all = [graph.taker(each, "Squeeze") for each in node.output]
        if any(each is None for each in squeezed_all):
            return {}
        return {each.output[0]: at for at, each in enumerate(squeezed_all) if each is not None}
    return {}


def _integer(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)


def _write(graph: IndexedGraph, part: Part, output: str) -> None:
    editor, joint, name = graph.editor, part.joint, f"{PLAIN}{output}."
    columns = np.split(joint.weight, part.parts, axis=1)[part.number]
    weight = editor.weight(f"{joint.name}.{part.number}", columns)
    steps: list[tuple[str, list[str], dict[str, Any]]] = [("MatMul", [joint.vector, weight], {})]
    if joint.bias is not None:
        bias = editor.weight(f"{name}bias", np.split(joint.bias, part.parts)[part.number])
        steps.append(("Add", [bias], {}))
    if part.heads is not None:
        steps.append(("Reshape", [ints(graph, 0, 0, *part.heads)], {}))
        if list(part.order) != UNTURNED:
            steps.append(("Transpose", [], {"perm": list(part.order)}))
    value = ""
    for at, (operator, inputs, attributes) in enumerate(steps):
        made = output if at == len(steps) - 1 else f"{name}{operator.lower()}"
        given = [value, *inputs] if value else inputs
        value = editor.add(operator, given, [made], name=f"{name}{operator.lower()}", **attributes)
