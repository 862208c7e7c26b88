"""ONNX's Attention operator (opsets 23 to 25) as the nodes that the pass ``fuse`` makes MultiHeadAttention of."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from edgepack.models.graph.facts import GraphFacts
from edgepack.models.graph.writer import GraphWriter
from edgepack.models.lower.operators import HEADS_FIRST, CannotLowerError, attributes_of, input_of

MASK, PAST_KEY, PAST_VALUE, LENGTHS = 3, 4, 5, 6
LAST_TWO = [0, 1, 3, 2]
UNBOUNDED = -1


def attention(writer: GraphWriter, node: onnx.NodeProto, facts: GraphFacts) -> str:
    """softmax(query · key · scale + mask) · value; of a query to whom no key is shown, zeros."""
    given = attributes_of(node)
    _require_plain(node)
    flat = "q_num_heads" in given and facts.rank(node.input[0]) != 4
    query, key, value = (
        _heads(writer, place, node.input[place], given["q_num_heads" if not place else "kv_num_heads"])
        if flat
        else node.input[place]
        for place in range(3)
    )
    if not _equal_heads(node, given, facts):
        key, value = (_shared(writer, name, query, each) for name, each in (("key", key), ("value", value)))
    scores = _scores(writer, query, key, given, facts)
    bias = _bias(writer, node, given, query, key, facts)
    shares = _shares(writer, scores, bias, double=given.get("softmax_precision") == TensorProto.DOUBLE)
    context = writer.add("MatMul", "context", shares, value)
    if not flat:
        return context
    turned = writer.add("Transpose", "turned", context, perm=HEADS_FIRST)
    return writer.add("Reshape", "merged", turned, writer.ints(0, 0, -1))


def _require_plain(node: onnx.NodeProto) -> None:
    """Text encoders run a text as a whole: what keeps keys from one run to the next is not for them."""
    if any(input_of(node, place) for place in (PAST_KEY, PAST_VALUE, LENGTHS)):
        raise CannotLowerError("with a cache of keys and values")
    if any(node.output[1:]):
        raise CannotLowerError("with outputs other than the attention itself")


def _heads(writer: GraphWriter, place: int, vector: str, count: int) -> str:
    """[batch, sequence, hidden] → [batch, heads, sequence, head]."""
    split = writer.add("Reshape", f"split_{place}", vector, writer.ints(0, 0, count, -1))
    return writer.add("Transpose", f"heads_{place}", split, perm=HEADS_FIRST)


def _equal_heads(node: onnx.NodeProto, given: Mapping[str, Any], facts: GraphFacts) -> bool:
    """Whether each head of the query is known to have keys of its own."""
    if "q_num_heads" in given and "kv_num_heads" in given:
        return bool(given["q_num_heads"] == given["kv_num_heads"])
    counts = [facts.size(node.input[place], 1) for place in (0, 1)]
    return counts[0] is not None and counts[0] == counts[1]


def _shared(writer: GraphWriter, name: str, query: str, vector: str) -> str:
    """Each head of keys (or values) as often as heads of the query share it: [batch, query's heads, sequence, head]."""
    sizes = [writer.add("Shape", f"{name}_{part}", vector, start=at, end=at + 1) for at, part in
             enumerate(("batch", "heads", "length", "head"))]  # fmt: skip
    wanted = writer.add("Shape", f"{name}_wanted", query, start=1, end=2)
    often = writer.add("Div", f"{name}_often", wanted, sizes[1])
    column = writer.add("Unsqueeze", f"{name}_column", vector, writer.ints(2))
    one = writer.ints(1)
    repeats = writer.add("Concat", f"{name}_repeats", one, one, often, one, one, axis=0)
    repeated = writer.add("Expand", f"{name}_repeated", column, repeats)
    shape = writer.add("Concat", f"{name}_shape", sizes[0], wanted, sizes[2], sizes[3], axis=0)
    return writer.add("Reshape", f"{name}_shared", repeated, shape)


def _scores(writer: GraphWriter, query: str, key: str, given: Mapping[str, Any], facts: GraphFacts) -> str:
    turned = writer.add("Transpose", "key_turned", key, perm=LAST_TWO)
    product = writer.add("MatMul", "scores", query, turned)
    scale = given.get("scale")
    if scale is None:
        head = writer.add("Shape", "head", query, start=3, end=4)
        root = writer.add("Sqrt", "root", writer.add("Cast", "head_float", head, to=TensorProto.FLOAT))
    else:
        root = writer.scalar("root", 1 / scale)
    scaled = writer.add("Div", "scaled", product, root)
    cap = given.get("softcap", 0.0)
    if cap <= 0:
        return scaled
    most = writer.scalar("cap", cap)
    return writer.add(
        "Mul", "capped", writer.add("Tanh", "bent", writer.add("Div", "by_cap", scaled, most)), most
    )


def _bias(
    writer: GraphWriter,
    node: onnx.NodeProto,
    given: Mapping[str, Any],
    query: str,
    key: str,
    facts: GraphFacts,
) -> list[str]:
    """Values that are added to the scores, for masks and for the order of tokens."""
    added = []
    if mask := input_of(node, MASK):
        kind = facts.kinds.get(mask)
        if kind is None:
            raise CannotLowerError("with a mask whose type the file does not state")
        added.append(_hiding(writer, "mask", mask) if kind == TensorProto.BOOL else mask)
    left, right = given.get("left_window_size", UNBOUNDED), given.get("right_window_size", UNBOUNDED)
    if given.get("is_causal", 0):
        right = 0
    if max(left, right) > UNBOUNDED:
        added.append(_window(writer, query, key, left, right))
    return added


def _hiding(writer: GraphWriter, name: str, shown: str) -> str:
    """0 for what is shown, minus infinity for the rest."""
    lowest = writer.weight("hidden", np.array(-np.inf, np.float32))
    return writer.add("Where", f"{name}_bias", shown, writer.scalar("shown", 0.0), lowest)


def _window(writer: GraphWriter, query: str, key: str, left: int, right: int) -> str:
    """[queries, keys]: how far before and behind its own place a token looks; ``UNBOUNDED``: to the end."""
    zero, one = writer.index(0), writer.index(1)

    def places(name: str, of: str) -> str:
        size = writer.add("Shape", f"{name}_end", of, start=2, end=3)
        length = writer.add("Squeeze", f"{name}_end_number", size, writer.ints(0))
        return writer.add("Range", f"{name}_places", zero, length, one)

    column = writer.add("Unsqueeze", "query_column", places("query", query), writer.ints(1))
    ahead = writer.add("Sub", "ahead", places("key", key), column)
    shown = [
        writer.add(operator, f"{operator}_edge", ahead, writer.index(edge))
        for operator, edge, bound in (("LessOrEqual", right, right), ("GreaterOrEqual", -left, left))
        if bound > UNBOUNDED
    ]
    both = shown[0] if len(shown) == 1 else writer.add("And", "window", *shown)
    return _hiding(writer, "window", both)


def _shares(writer: GraphWriter, scores: str, bias: list[str], *, double: bool) -> str:
    for place, each in enumerate(bias):
        scores = writer.add("Add", f"masked_{place}", scores, each)
    if double:
        scores = writer.add("Cast", "wide", scores, to=TensorProto.DOUBLE)
    shares = writer.add("Softmax", "shares", scores, axis=-1)
    if double:
        shares = writer.add("Cast", "narrow", shares, to=TensorProto.FLOAT)
    if not bias:
        return shares
    nowhere = writer.add("IsNaN", "nowhere", shares)
    return writer.add("Where", "shown_shares", nowhere, writer.scalar("nothing", 0.0), shares)
