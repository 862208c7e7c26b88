"""What attention takes: query, key and value as products that are normalised and rotated, and who attends to whom."""

from dataclasses import dataclass, replace

import numpy as np
import onnx

from edgepack.api import UnsupportedModelError
from edgepack_engine.graph import HINT, Array, Graph, attribute, inputs_of
from edgepack_engine.plan import MOST_SIZE


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Query, key or value."""

    product: str
    """The value that a matrix product makes."""
    bias: Array | None = None
    norm: Array | None = None
    """float32 [size], of a norm (RMSNorm) of each head."""
    epsilon: float = 0.0
    frequencies: Array | None = None
    """float32 [size / 2], of rotary positions."""
    repeats: int = 1
    """How many heads share one of these."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Who attends to whom."""

    radius: int = 0
    """How far to both sides; 0: to all."""
    causal: bool = False
    """Only to what comes before."""
    distances: Array | None = None
    """float32 [heads, 2 n + 1], added to scores by how far the key is behind the query, the middle for itself."""
    kinds: "Kinds | None" = None


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """Kinds of distances, of each of which a query, or a key, makes a number that is added to scores (DeBERTa)."""

    of_distances: Array
    """int64 [2 n + 1]: the kind by how far the query is behind the key, the middle for itself; beyond the ends as there."""
    scale: float
    by_query: Array | None
    """float32 [kinds, heads x size], which the query is multiplied by."""
    by_key: Array | None

    def within(self, longest: int) -> Array:
        """int32 [2 longest - 1], by how far the key is behind the query."""
        edge = len(self.of_distances) // 2
        apart = np.clip(np.arange(1 - longest, longest), -edge, edge)
        found: Array = self.of_distances[edge - apart].astype("<i4")
        return found


@dataclass(frozen=True, kw_only=True)
class Attended:
    query: Projection
    key: Projection
    value: Projection
    heads: int
    scale: float
    """0: one over the root of the heads' size."""
    reach: Reach

    @property
    def turned(self) -> bool:
        """Whether queries and keys are turned by their positions."""
        return self.query.frequencies is not None or self.key.frequencies is not None


def attended(graph: Graph, node: onnx.NodeProto) -> Attended:
    """Attention that a MultiHeadAttention computes. Raises ``UnsupportedModelError``."""
    query, key, value, biases, mask, bias, *rest = inputs_of(node, 6)
    if any(rest) or graph.need(mask, "Cast").input[0] != "attention_mask":
        raise graph.no_step(node.output[0])
    projections = [projection(graph, each) for each in (query, key, value)]
    if biases:
        whole = graph.vector(biases)
        assert whole is not None
        projections = [
            replace(each, bias=part) for each, part in zip(projections, whole.reshape(3, -1), strict=True)
        ]
    return Attended(
        query=projections[0],
        key=projections[1],
        value=projections[2],
        heads=int(attribute(node, "num_heads", 0)),
        scale=float(attribute(node, "scale", 0.0)),
        reach=reach_of(graph, bias) if bias else Reach(),
    )


def projection(graph: Graph, name: str) -> Projection:
    """Steps between a product and the attention that takes it."""
    node = graph.need(name, "Mul", "Add", "Reshape", "RotaryEmbedding", "SimplifiedLayerNormalization")
    if node.op_type == "Mul":
        return Projection(product=name)
    before = graph.maker(node.input[0], "Expand")
    if node.op_type == "Reshape" and before is not None:
        sizes = graph.constant(before.input[1])
        shared = graph.need(before.input[0], "Reshape")
        if sizes is None or sizes.size != 5:
            raise graph.no_step(name)
        return replace(projection(graph, shared.input[0]), repeats=int(sizes[3]))
    found = projection(graph, node.input[0])
    if node.op_type == "Add":
        return replace(found, bias=graph.vector(node.input[1]))
    if node.op_type == "SimplifiedLayerNormalization":
        if found.frequencies is not None or found.norm is not None:
            raise graph.no_step(name)
        return replace(
            found, norm=graph.vector(node.input[1]), epsilon=float(attribute(node, "epsilon", 1e-5))
        )
    if node.op_type == "RotaryEmbedding":
        if (
            attribute(node, "interleaved", 0)
            or attribute(node, "rotary_embedding_dim", 0)
            or found.frequencies is not None
        ):
            raise graph.no_step(name)
        return replace(found, frequencies=_frequencies(graph, node))
    return found


def _frequencies(graph: Graph, node: onnx.NodeProto) -> Array:
    """How fast each pair of numbers turns: the cosines' angles are places times these."""
    angles = graph.need(graph.need(node.input[2], "Cos").input[0], "Mul")
    if graph.need(node.input[3], "Sin").input[0] != angles.output[0]:
        raise graph.no_step(node.output[0])
    found = graph.vector(angles.input[1])
    assert found is not None
    return found


def reach_of(graph: Graph, name: str) -> Reach:
    """Who attends to whom, by what is added to scores. Raises ``UnsupportedModelError`` for what is no window."""
    node = graph.need(name, "Add", "Unsqueeze", "Gather", "Div")
    if node.op_type == "Div":
        return Reach(kinds=_kinds(graph, node))
    if node.op_type == "Gather":
        return Reach(distances=_distances(graph, node))
    if node.op_type == "Add":
        one, other = (reach_of(graph, each) for each in node.input)
        return Reach(radius=max(one.radius, other.radius), causal=one.causal or other.causal)
    far = graph.need(node.input[0], "Mul")
    if graph.number(far.input[1]) > -1e4:
        raise graph.no_step(name)
    beyond = graph.need(graph.need(far.input[0], "Cast").input[0], "Greater")
    apart = graph.maker(beyond.input[0], "Abs")
    if apart is not None:
        graph.need(apart.input[0], "Sub")
        return Reach(radius=int(graph.number(beyond.input[1])))
    later = graph.need(beyond.input[0], "Transpose")
    if later.input[0] != beyond.input[1]:
        raise graph.no_step(name)
    return Reach(causal=True)


def _distances(graph: Graph, node: onnx.NodeProto) -> Array:
    """MPNet's: one row a head, by a place that differences of positions are moved to."""
    table = graph.constant(node.input[0])
    index = graph.need(node.input[1], "Squeeze")
    moved = graph.need(index.input[0], "Add")
    graph.need(moved.input[0], "Sub")
    if (
        table is None
        or attribute(node, "axis", 0) != table.ndim - 1
        or table.shape[-1] != 2 * int(graph.number(moved.input[1])) + 1
    ):
        raise graph.no_step(node.output[0])
    return table.reshape(-1, table.shape[-1]).astype("<f4")


def _kinds(graph: Graph, node: onnx.NodeProto) -> Kinds:
    """DeBERTa's: rows of scores with tables of distances, each moved to its place, of queries and, turned, of keys."""
    added = graph.maker(node.input[0], "Add")
    by: dict[bool, Array] = {}
    kinds = None
    for name in [node.input[0]] if added is None else added.input:
        turned = graph.maker(name, "Transpose")
        moved = name if turned is None else turned.input[0]
        for operator in ("Slice", "Reshape", "Slice", "Reshape"):
            moved = graph.need(moved, operator).input[0]
        taken = graph.need(graph.need(graph.need(moved, "MatMul").input[1], "Transpose").input[0], "Reshape")
        table, rows = _taken(graph, taken.input[0])
        found = graph.constant(rows.input[0])
        shifted = graph.need(graph.need(graph.need(rows.input[1], "Max").input[0], "Min").input[0], "Add")
        descending = graph.maker(shifted.input[0], "Neg") is not None
        if (
            found is None
            or len(found) != 2 * int(graph.number(shifted.input[1])) + 1
            or descending == (turned is not None)
            or (kinds is not None and not np.array_equal(kinds, found))
        ):
            raise graph.no_step(node.output[0])
        kinds = found
        by[turned is None] = table
    assert kinds is not None
    return Kinds(
        of_distances=kinds,
        scale=1 / graph.number(node.input[1]),
        by_query=by.get(True),
        by_key=by.get(False),
    )


def _taken(graph: Graph, name: str) -> tuple[Array, onnx.NodeProto]:
    """A table some rows of which a value is, and the node that says which."""
    node = graph.need(name, "Gather", "Mul")
    scales = None
    if node.op_type == "Mul":
        scales = graph.constant(graph.need(node.input[1], "Gather").input[0])
        node = graph.need(graph.need(node.input[0], "Cast").input[0], "Gather")
    table = graph.constant(node.input[0])
    if table is None:
        raise graph.no_step(name)
    floats = table.astype("<f4")
    return floats if scales is None else floats * scales, graph.need(node.input[1], "Gather")


def head_places(heads: int, size: int, wide: int, *, turned: bool) -> Array:
    """Places of the numbers of heads that are ``wide`` apart: where they are turned in pairs, each half at the beginning of a half."""
    one = np.arange(size)
    if turned:
        one = np.concatenate([one[: size // 2], wide // 2 + one[: size // 2]])
    return (wide * np.arange(heads)[:, None] + one).reshape(-1)


def require_size(size: int) -> None:
    """Raise ``UnsupportedModelError`` for heads that are too large."""
    if size > MOST_SIZE:
        raise UnsupportedModelError(f"heads of {size} numbers are above {MOST_SIZE}", hint=HINT)


def require_distances(reach: Reach, longest: int) -> None:
    """Raise ``UnsupportedModelError`` where a text may have tokens further apart than there are distances."""
    if reach.distances is not None and (most := reach.distances.shape[1] // 2 + 1) < longest:
        raise UnsupportedModelError(
            f"the model knows distances in texts of {most} tokens, not of {longest}",
            hint=HINT,
        )
