"""Attention that onnxruntime.transformers does not know: scores with a bias of their own (MPNet), rotary positions (Nomic).

Both become the operators MultiHeadAttention and RotaryEmbedding of domain com.microsoft
(https://github.com/microsoft/onnxruntime/blob/v1.21.0/docs/ContribOperators.md). BERT's plain attention is left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgepack.models.graph.clean import without_dead_nodes
from edgepack.models.graph.editor import MICROSOFT, GraphEditor, edit

MASK = "attention_mask"
HEADS_FIRST = [0, 2, 1, 3]
KEY_TURNED = [0, 2, 3, 1]
LAST_TWO = [0, 1, 3, 2]


@dataclass(frozen=True, kw_only=True)
class Angles:
    """Cosine and sine, float32 [sequence, head / 2]."""

    cosine: str
    sine: str


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Query, key or value before its heads are split: [batch, sequence, hidden]."""

    vector: str
    heads: int
    head: int
    """Numbers of a head; 0 where the graph does not say it."""
    angles: Angles | None = None
    shared: int = 1
    """How many heads of the query each of these serves."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """One attention: where it comes from, where it ends."""

    query: Projection
    key: Projection
    value: Projection
    bias: str
    """Added to the scores beside the mask; empty where there is none."""
    masked: float
    """What the mask adds for padding."""
    root: float
    """What the scores are divided by."""
    last: onnx.NodeProto


@dataclass(frozen=True, kw_only=True)
class IndexedGraph:
    """A graph with its edges at hand."""

    editor: GraphEditor
    producers: dict[str, onnx.NodeProto] = field(default_factory=dict)
    takers: dict[str, list[onnx.NodeProto]] = field(default_factory=dict)
    added: dict[str, onnx.NodeProto] = field(default_factory=dict)
    """Nodes that the graph has not, by what they would make."""

    def made_by(self, value: str, operator: str) -> onnx.NodeProto | None:
        """The node that makes a value, if it is this operator."""
        node = self.producers.get(value)
        return node if node is not None and node.op_type == operator else None

    def taker(self, value: str, operator: str) -> onnx.NodeProto | None:
        """The one node that takes a value, if it is this operator."""
        nodes = self.takers.get(value, [])
        return nodes[0] if len(nodes) == 1 and nodes[0].op_type == operator else None

    def constant(self, name: str) -> np.ndarray | None:
        """A weight's values, if it is one."""
        return self.editor.array(name) if name in self.editor.weights else None

    def perm(self, node: onnx.NodeProto) -> list[int]:
        """A transposition's order of axes."""
        return next((list(each.ints) for each in node.attribute if each.name == "perm"), [])


def fuse_attention(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with such attention fused; the same object where there is none."""
    graph = open_graph(model)
    matches = {match.last.output[0]: match for match in _matches(graph)}
    if not matches:
        return model
    editor = graph.editor
    mask = f"{MASK}.int32"
    for node in editor.take_nodes():
        match = matches.get(node.output[0])
        if match is None:
            editor.keep(node)
            continue
        if not editor.is_made(mask):
            editor.add("Cast", [MASK], [mask], name=mask, to=TensorProto.INT32)
        _write(graph, match, mask)
    return without_dead_nodes(editor.finish())


def open_graph(model: onnx.ModelProto) -> IndexedGraph:
    """A model to be rewritten, with its edges at hand."""
    graph = IndexedGraph(editor=edit(model))
    for node in model.graph.node:
        for value in node.output:
            graph.producers[value] = node
        for value in node.input:
            graph.takers.setdefault(value, []).append(node)
    return graph


def _matches(graph: IndexedGraph) -> Iterator[Match]:
    for node in graph.editor.take_nodes():
        match = _match(graph, node) if node.op_type == "Softmax" else None
        if match is not None and (match.bias or match.query.angles):
            yield match


def _match(graph: IndexedGraph, softmax: onnx.NodeProto) -> Match | None:
    masked = graph.made_by(softmax.input[0], "Add")
    context = graph.taker(softmax.output[0], "MatMul")
    if masked is None or context is None or context.input[0] != softmax.output[0]:
        return None
    turned = graph.taker(context.output[0], "Transpose")
    last = graph.taker(turned.output[0], "Reshape") if turned is not None else None
    scaled = graph.made_by(masked.input[0], "Div")
    scores = graph.made_by(scaled.input[0], "MatMul") if scaled is not None else None
    bias = _bias(graph, masked.input[1])
    if turned is None or last is None or scaled is None or scores is None or bias is None:
        return None
    query = _projection(graph, scores.input[0], HEADS_FIRST)
    key = _projection(graph, scores.input[1], KEY_TURNED)
    value = _projection(graph, context.input[1], HEADS_FIRST)
    if query is None or key is None or value is None or graph.perm(turned) != HEADS_FIRST:
        return None
    root = graph.constant(scaled.input[1])
    if root is None or root.size != 1:
        return None
    if query.angles != key.angles or value.angles or query.shared != 1:
        return None
    if {query.heads} != {each.heads * each.shared for each in (key, value)}:
        return None
    return Match(
        query=query,
        key=key,
        value=value,
        bias=bias[0],
        masked=bias[1],
        root=float(root.reshape(())),
        last=last,
    )


def _projection(graph: IndexedGraph, value: str, order: list[int]) -> Projection | None:
    """Back through the splitting into heads, and through a rotation and a repetition where there are such."""
    transpose = graph.made_by(value, "Transpose")
    if transpose is not None and graph.perm(transpose) == order:
        return _split(graph, transpose, None)
    if order == KEY_TURNED:
        if transpose is None or graph.perm(transpose) != LAST_TWO:
            return None
        value = transpose.input[0]
    value, shared = _single(graph, value)
    rotation = _rotation(graph, value)
    if rotation is None and shared == 1:
        return None
    heads = graph.made_by(rotation[0] if rotation else value, "Transpose")
    if heads is None or graph.perm(heads) != HEADS_FIRST:
        return None
    found = _split(graph, heads, rotation[1] if rotation else None)
    return replace(found, shared=shared) if found is not None and (found.head or shared == 1) else None


def _single(graph: IndexedGraph, value: str) -> tuple[str, int]:
    """A value before each of its heads was repeated, and how many of each there are after that."""
    reshape = graph.made_by(value, "Reshape")
    many = graph.made_by(reshape.input[0], "Expand") if reshape is not None else None
    column = graph.made_by(many.input[0], "Unsqueeze") if many is not None else None
    if many is None or column is None:
        return value, 1
    sizes, axes = graph.constant(many.input[1]), graph.constant(column.input[1])
    if sizes is None or axes is None or sizes.size != 5 or list(axes) != [2]:
        return value, 1
    times = int(sizes[2])
    return (str(column.input[0]), times) if list(sizes) == [1, 1, times, 1, 1] else (value, 1)


def _split(graph: IndexedGraph, transpose: onnx.NodeProto, angles: Angles | None) -> Projection | None:
    reshape = graph.made_by(transpose.input[0], "Reshape")
    sizes = graph.constant(reshape.input[1]) if reshape is not None else None
    if reshape is None or sizes is None or len(sizes) != 4 or sizes[2] <= 0:
        return None
    return Projection(vector=reshape.input[0], heads=int(sizes[2]), head=max(int(sizes[3]), 0), angles=angles)


def _rotation(graph: IndexedGraph, value: str) -> tuple[str, Angles] | None:
    """Value that was rotated, and the angles: [x₁·cos - x₂·sin, x₂·cos + x₁·sin]."""
    concat = graph.made_by(value, "Concat")
    if concat is None or len(concat.input) != 2:
        return None
    left = _two_products(graph, concat.input[0], "Sub")
    right = _two_products(graph, concat.input[1], "Add")
    if left is None or right is None:
        return None
    (first, cosine), (second, sine) = left
    if right != ([second, cosine], [first, sine]):
        return None
    vector = _halved(graph, first, second)
    return None if vector is None else (vector, Angles(cosine=cosine, sine=sine))


def _two_products(graph: IndexedGraph, value: str, operator: str) -> tuple[list[str], list[str]] | None:
    """The factors of both, where a value is the sum or difference of two products."""
    node = graph.made_by(value, operator)
    if node is None:
        return None
    left, right = (graph.made_by(name, "Mul") for name in node.input)
    return None if left is None or right is None else (list(left.input), list(right.input))


def _halved(graph: IndexedGraph, first: str, second: str) -> str | None:
    """The value of which two others are the first and the second part, if they are."""
    left, right = graph.made_by(first, "Slice"), graph.made_by(second, "Slice")
    if left is None or right is None or left.input[0] != right.input[0]:
        return None
    begins = [graph.constant(node.input[1]) for node in (left, right)]
    if begins[0] is None or begins[1] is None or int(begins[0][0]) != 0 or int(begins[1][0]) <= 0:
        return None
    return str(left.input[0])


def _bias(graph: IndexedGraph, value: str) -> tuple[str, float] | None:
    """Bias that is added to the scores (or nothing), and the value that padding gets."""
    if (masked := _padding(graph, value)) is not None:
        return "", masked
    added = graph.made_by(value, "Add")
    if added is None:
        return None
    for bias, mask in (added.input, reversed(added.input)):
        if (masked := _padding(graph, mask)) is not None:
            return bias, masked
    return None


def _padding(graph: IndexedGraph, value: str) -> float | None:
    """Value that padding gets, where a tensor is (1 - mask) · number, for the mask of the text."""
    product = graph.made_by(value, "Mul")
    dropped = graph.made_by(product.input[0], "Sub") if product is not None else None
    kept = graph.made_by(dropped.input[1], "Cast") if dropped is not None else None
    cells = graph.made_by(kept.input[0], "Unsqueeze") if kept is not None else None
    rows = graph.made_by(cells.input[0], "Unsqueeze") if cells is not None else None
    number = graph.constant(product.input[1]) if product is not None else None
    if rows is None or rows.input[0] != MASK or number is None or number.size != 1:
        return None
    return float(number.reshape(()))


def _write(graph: IndexedGraph, match: Match, mask: str) -> None:
    """The operators in place of the match's last node, which those before it then only feed."""
    editor, output = graph.editor, match.last.output[0]
    vectors, biases = [], []
    for projection in (match.query, match.key, match.value):
        plain = not match.query.angles and match.key.shared == match.value.shared == 1
        vector, bias = _without_bias(graph, projection) if plain else (projection.vector, None)
        vectors.append(_turned(editor, projection, vector))
        biases.append(bias)
    if any(bias is None for bias in biases):
        vectors = [_turned(editor, each, each.vector) for each in (match.query, match.key, match.value)]
        joint = ""
    else:
        joint = editor.weight(
            f"{output}.biases", np.concatenate([bias for bias in biases if bias is not None])
        )
    editor.add(
        "MultiHeadAttention",
        [*vectors, joint, mask, match.bias] if match.bias else [*vectors, joint, mask],
        [output],
        name=output,
        domain=MICROSOFT,
        attributes=[
            helper.make_attribute("num_heads", match.query.heads),
            helper.make_attribute("mask_filter_value", match.masked),
            *_scale(match),
        ],
    )


def _scale(match: Match) -> list[onnx.AttributeProto]:
    """Factor of the scores, where it is not 1 / √head."""
    head = match.query.head
    if not head or np.isclose(match.root, np.sqrt(head), rtol=1e-6):
        return []
    return [helper.make_attribute("scale", 1 / match.root)]


def _without_bias(graph: IndexedGraph, projection: Projection) -> tuple[str, np.ndarray | None]:
    """A projection before its bias is added, and the bias; the operator adds it itself."""
    added = graph.made_by(projection.vector, "Add")
    if added is not None and graph.made_by(added.input[0], "MatMul") is not None:
        bias = graph.constant(added.input[1])
        if bias is not None and bias.ndim == 1:
            return added.input[0], bias
    return projection.vector, None


def _turned(editor: GraphEditor, projection: Projection, vector: str) -> str:
    """Rotated, and each head as often as it is shared: [batch, sequence, hidden]."""
    if projection.angles is not None:
        output = f"{vector}.rotated"
        if not editor.is_made(output):
            start = editor.weight("rotary.start", np.zeros(1, np.int64))
            inputs = [vector, start, projection.angles.cosine, projection.angles.sine]
            editor.add("RotaryEmbedding", inputs, [output], name=output, domain=MICROSOFT)
        vector = output
    return vector if projection.shared == 1 else _repeated(editor, projection, vector)


def _repeated(editor: GraphEditor, projection: Projection, vector: str) -> str:
    heads, head, shared = projection.heads, projection.head, projection.shared

    def add(operator: str, name: str, value: str, *sizes: int) -> str:
        wanted = editor.weight(f"heads.{'_'.join(map(str, sizes))}", np.array(sizes, np.int64))
        output = f"{vector}.{name}"
        return (
            output if editor.is_made(output) else editor.add(operator, [value, wanted], [output], name=output)
        )

    single = add("Reshape", "single", vector, 0, 0, heads, 1, head)
    many = add("Expand", "many", single, 1, 1, 1, shared, 1)
    return add("Reshape", "repeated", many, 0, 0, heads * shared * head)
