"""Graphs of other exporters with their attention, rotations and joint matrices written as edgepack's own graphs have them.

Fusions look for one way to write each. What comes out computes the same; ``fuse`` compares the vectors.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from edgepack.models.fuse.attention import IndexedGraph, open_graph
from edgepack.models.fuse.masks import Window, window_of, write_mask
from edgepack.models.graph.clean import without_dead_nodes
from edgepack.models.graph.writer import GraphWriter

PLAIN = "plain."
"""Before the names of what is added."""
HEADS_FIRST, KEY_TURNED, LAST_TWO, FLAT_LAST_TWO = [0, 2, 1, 3], [0, 2, 3, 1], [0, 1, 3, 2], [0, 2, 1]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of one softmax: query · key, times a number, and what is added."""

    query: str
    key: str
    """[batch, heads, sequence, head], not turned."""
    scale: float
    added: Sequence[str]
    """Masks and biases, one by one."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """One attention of another exporter."""

    scores: Scores
    softmax: onnx.NodeProto
    context: onnx.NodeProto
    """The product of what the softmax makes with the value."""


def plain_attention(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function with every attention as ``edgepack.models.export.encoder.attend`` writes it; or the model itself."""
    graph = open_graph(model)
    found = {each.context.output[0]: each for each in _attentions(graph)}
    if not found:
        return model
    values = sorted({value for each in found.values() for value in each.scores.added})
    masks, nodes = _plain_masks(graph, values)
    for node in nodes:
        graph.editor.keep(node)
    for node in graph.editor.take_nodes():
        match = found.get(node.output[0])
        if match is None:
            graph.editor.keep(node)
        else:
            _write(graph, match, masks)
    return without_dead_nodes(graph.editor.finish())


def _plain_masks(graph: IndexedGraph, values: Iterable[str]) -> tuple[dict[str, str], list[onnx.NodeProto]]:
    """Mask → the value that does the same, and the nodes that make those; masks of other kinds are left out."""
    names: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []
    written: dict[Window, str] = {}
    for value in values:
        window = window_of(graph.editor.model, value)
        if window is None:
            continue
        if window not in written:
            writer = GraphWriter(prefix=f"{PLAIN}{len(written)}.")
            mask = write_mask(writer, window)
            if mask is None:
                continue
            written[window] = mask
            nodes += writer.nodes
            graph.editor.weights.update(writer.initializers)
        names[value] = written[window]
    return names, nodes


def _attentions(graph: IndexedGraph) -> Iterable[Found]:
    for node in graph.editor.take_nodes():
        if node.op_type != "Softmax":
            continue
        shares = _without_guard(graph, node.output[0])
        context = graph.taker(shares, "MatMul")
        scores = _scores(graph, node.input[0])
        if scores is not None and context is not None and context.input[0] == shares:
            yield Found(scores=scores, softmax=node, context=context)


def _without_guard(graph: IndexedGraph, shares: str) -> str:
    """Behind what makes zeros of the shares of tokens that see nothing: no text has such."""
    takers = graph.takers.get(shares, [])
    where = next((each for each in takers if each.op_type == "Where"), None)
    asks = next((each for each in takers if each.op_type == "IsNaN"), None)
    if where is None or asks is None or len(takers) != 2:
        return shares
    zero = graph.constant(where.input[1])
    is_guard = where.input[0] == asks.output[0] and where.input[2] == shares
    return str(where.output[0]) if is_guard and zero is not None and not zero.any() else shares


def _scores(graph: IndexedGraph, value: str) -> Scores | None:
    """Back from a softmax: what is added, the scale before or behind the product, the product."""
    summed = _summed(graph, value)
    if summed is None:
        return None
    value, added = summed
    product = _product(graph, value)
    if product is None:
        return None
    node, scale = product
    query, of_query = _scaled(graph, node.input[0])
    turned, of_turned = _scaled(graph, node.input[1])
    key = _unturned(graph, turned)
    if key is None:
        return None
    key, of_key = _scaled(graph, key)
    return Scores(query=query, key=key, scale=scale * of_query * of_turned * of_key, added=added)


def _summed(graph: IndexedGraph, value: str) -> tuple[str, list[str]] | None:
    """The product that a sum has in it, and all else that is added."""
    if _product(graph, value) is not None:
        return value, []
    node = graph.made_by(value, "Add")
    if node is None:
        return None
    for scores, other in (node.input, reversed(node.input)):
        if (found := _summed(graph, scores)) is not None:
            return found[0], [*found[1], *_summands(graph, other)]
    return None


def _summands(graph: IndexedGraph, value: str) -> list[str]:
    node = graph.made_by(value, "Add")
    return [value] if node is None else [each for part in node.input for each in _summands(graph, part)]


def _product(graph: IndexedGraph, value: str) -> tuple[onnx.NodeProto, float] | None:
    value, scale = _scaled(graph, value)
    node = graph.made_by(value, "MatMul")
    return None if node is None or node.input[1] in graph.editor.weights else (node, scale)


def _scaled(graph: IndexedGraph, value: str) -> tuple[str, float]:
    """A value before it is multiplied with or divided by numbers, and by how much it grew."""
    scale = 1.0
    while (node := graph.producers.get(value)) is not None and node.op_type in ("Mul", "Div"):
        number = graph.constant(node.input[1])
        before = node.input[0]
        if number is None and node.op_type == "Mul":
            number, before = graph.constant(node.input[0]), node.input[1]
        if number is None or number.size != 1 or not number.all():
            break
        factor = float(number.reshape(()))
        value, scale = str(before), scale * factor if node.op_type == "Mul" else scale / factor
    return value, scale


def _unturned(graph: IndexedGraph, turned: str) -> str | None:
    """The key of which a value is the transposed, [batch, heads, sequence, head]; ``None`` where it is none."""
    transpose = graph.made_by(turned, "Transpose")
    if transpose is not None:
        order = graph.perm(transpose)
        if order == LAST_TWO:
            return str(transpose.input[0])
        if order != KEY_TURNED:
            return None
        heads = f"{PLAIN}{turned}.heads"
        graph.added[heads] = helper.make_node(
            "Transpose", [transpose.input[0]], [heads], name=heads, perm=HEADS_FIRST
        )
        return heads
    # torchlib turns by way of three axes: [batch · heads, sequence, head].
    back = graph.made_by(turned, "Reshape")
    flat = graph.made_by(back.input[0], "Transpose") if back is not None else None
    first = graph.made_by(flat.input[0], "Reshape") if flat is not None else None
    if flat is None or first is None or graph.perm(flat) != FLAT_LAST_TWO:
        return None
    return str(first.input[0])


def _write(graph: IndexedGraph, match: Found, masks: dict[str, str]) -> None:
    editor, scores = graph.editor, match.scores
    part = f"{PLAIN}{match.context.output[0]}."

    def add(operator: str, name: str, inputs: list[str], **attributes: Any) -> str:
        return editor.add(operator, inputs, [part + name], name=part + name, **attributes)

    product = add("MatMul", "scores", [scores.query, _turned(graph, scores.key, part)])
    root = np.float32(1 / scores.scale)
    value = add("Div", "scaled", [product, editor.weight(f"{PLAIN}root.{root!r}", np.array(root))])
    biases = [each for each in scores.added if each not in masks]
    added = [*biases, *dict.fromkeys(masks[each] for each in scores.added if each in masks)]
    for at, each in enumerate(added[1:]):
        added[0] = add("Add", f"bias_{at}", [added[0], each])
    if added:
        value = add("Add", "masked", [value, added[0]])
    shares = add("Softmax", "shares", [value], axis=-1)
    editor.add("MatMul", [shares, match.context.input[1]], list(match.context.output), name=f"{part}context")


def _turned(graph: IndexedGraph, key: str, part: str) -> str:
    """[batch, heads, head, sequence], of the split key itself where there is one: in one transposition."""
    heads = graph.added.get(key) or graph.made_by(key, "Transpose")
    name = f"{part}key_turned"
    if heads is not None and graph.perm(heads) == HEADS_FIRST:
        return graph.editor.add("Transpose", [heads.input[0]], [name], name=name, perm=KEY_TURNED)
    return graph.editor.add("Transpose", [key], [name], name=name, perm=LAST_TWO)
