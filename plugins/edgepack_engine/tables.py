"""Embeddings: rows of tables by token, type and position, added up."""

from dataclasses import dataclass

import numpy as np

from edgepack.api import UnsupportedModelError
from edgepack_engine.graph import Array, Graph
from edgepack_engine.plan import Rows

INDICES = {"input_ids": Rows.TOKENS, "token_type_ids": Rows.TYPES}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows that a token has one of."""

    by: Rows
    numbers: Array
    """[rows, width], int8 or float32."""
    scales: Array | None
    """float32 [rows], of int8."""
    first: int = 0
    """The row of the first position."""
    padding: int = 0
    """The token that positions are not counted for."""


def tables_of(graph: Graph, name: str) -> list[Table] | None:
    """The tables whose rows a value is the sum of; none for another value."""
    try:
        return _tables_of(graph, name)
    except UnsupportedModelError:
        return None


def _tables_of(graph: Graph, name: str) -> list[Table]:
    node = graph.need(name, "Add", "Mul", "Gather")
    if node.op_type == "Add":
        return [table for each in node.input for table in _tables_of(graph, each)]
    scales = None
    if node.op_type == "Mul":
        scales = graph.vector(graph.need(node.input[1], "Gather").input[0])
        node = graph.need(graph.need(node.input[0], "Cast").input[0], "Gather")
    numbers = graph.constant(node.input[0])
    if numbers is None or numbers.dtype != (np.float32 if scales is None else np.int8):
        raise graph.no_step(name)
    return [_indexed(graph, node.input[1], numbers, scales)]


def _indexed(graph: Graph, name: str, numbers: Array, scales: Array | None) -> Table:
    if name in INDICES:
        return Table(by=INDICES[name], numbers=numbers, scales=scales)
    node = graph.need(name, "Slice", "Add")
    if node.op_type == "Slice":
        positions = graph.constant(node.input[0])
        if positions is None or not np.array_equal(
            np.diff(positions.reshape(-1)), np.ones(positions.size - 1)
        ):
            raise graph.no_step(name)
        return Table(by=Rows.POSITIONS, numbers=numbers, scales=scales, first=int(positions.reshape(-1)[0]))
    # RoBERTa's: words are counted, padding is not, and both are moved on by the number of the padding token.
    counted = graph.need(graph.need(node.input[0], "Mul").input[0], "CumSum")
    pads = graph.need(graph.need(graph.need(counted.input[0], "Cast").input[0], "Not").input[0], "Equal")
    if pads.input[0] != "input_ids":
        raise graph.no_step(name)
    first, padding = int(graph.number(node.input[1])), int(graph.number(pads.input[1]))
    return Table(by=Rows.COUNTED, numbers=numbers, scales=scales, first=first, padding=padding)
