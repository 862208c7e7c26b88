"""Token sequences for trying a graph out: no text and no tokenizer, only what the graph itself says of its tables."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Feed = dict[str, npt.NDArray[np.int64]]

SEED = 20
LONGEST = 40
VOCABULARY_WHEN_UNKNOWN = 100
MOST_TYPES = 4
"""Rows of a table of token types; an exporter that was given none picks the first with a constant."""
SAME_VALUES = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
WIDENED = ("Cast", "DequantizeLinear", "Identity", "Mul")
"""What makes floats of a table of integers, its first input."""


def padded_batch(model: onnx.ModelProto) -> Feed:
    """Inputs that try padding on the right and different lengths; int64 [4, up to 12]."""
    longest = min(12, longest_sequence(model))
    lengths = np.maximum(np.array([longest, longest // 2, longest // 4, 1]), 1)
    mask = (np.arange(longest)[None, :] < lengths[:, None]).astype(np.int64)
    ids = np.random.default_rng(SEED).integers(0, vocabulary(model), mask.shape) * mask
    return _feed(model, ids, mask)


def random_tokens(model: onnx.ModelProto, count: int) -> Iterator[Feed]:
    """Inputs of ``count`` sequences of different lengths, each alone; int64 [1, length]."""
    random = np.random.default_rng(SEED)
    longest, rows = min(LONGEST, longest_sequence(model)), vocabulary(model)
    for _ in range(count):
        length = int(random.integers(min(4, longest), longest + 1))
        ids = random.integers(0, rows, (1, length))
        yield _feed(model, ids, np.ones_like(ids))


def one_text(model: onnx.ModelProto, tokens: int) -> Feed:
    """Inputs of one sequence without padding; int64 [1, tokens]."""
    ids = np.random.default_rng(SEED).integers(0, vocabulary(model), (1, tokens))
    return _feed(model, ids, np.ones_like(ids))


def vocabulary(model: onnx.ModelProto) -> int:
    """Rows of the table that ``input_ids`` picks from."""
    return min(table_rows(model), default=VOCABULARY_WHEN_UNKNOWN)


def table_rows(model: onnx.ModelProto) -> list[int]:
    """Rows of each table that ``input_ids`` picks from."""
    rows = [_rows(model, table, axes=(1, 2)) for table, ids in lookups(model) if ids == "input_ids"]
    return [count for count in rows if count]


def longest_sequence(model: onnx.ModelProto) -> int:
    """Rows that tokens reach of the smallest table that something else than an input picks from: the position table."""
    named = {each.name for each in model.graph.input}
    rows = [
        _rows(model, table) - _first_position(model, ids) for table, ids in lookups(model) if ids not in named
    ]
    return min((count for count in rows if count > MOST_TYPES), default=LONGEST)


def _first_position(model: onnx.ModelProto, ids: str) -> int:
    """Number of the first position: 0, or in graphs of fairseq's kind, which add the padding's id last, the one after that."""
    added = next((node for node in model.graph.node if node.op_type == "Add" and ids in node.output), None)
    if added is None:
        return 0
    constants = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name in added.input}
    values = [numpy_helper.to_array(tensor) for tensor in constants.values()]
    return next((int(value.reshape(-1)[0]) + 1 for value in values if value.size == 1), 0)


def _feed(model: onnx.ModelProto, ids: npt.NDArray[np.int64], mask: npt.NDArray[np.int64]) -> Feed:
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return {each.name: values[each.name] for each in model.graph.input if each.name in values}


def lookups(model: onnx.ModelProto) -> Iterator[tuple[str, str]]:
    """Table and ids of every lookup; ids that were only cast or reshaped count as what they were before, and so does a table of
    integers that is made floats first.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    widened = {
        node.output[0]: node.input[0] for node in model.graph.node if node.op_type in WIDENED and node.input
    }
    same = [node for node in model.graph.node if node.op_type in SAME_VALUES and node.input and node.output]
    made_of = {node.output[0]: node.input[0] for node in same}

    def origin(ids: str) -> str:
        for _ in same:  # a damaged graph may go in circles
            ids = made_of.get(ids, ids)
        return ids

    def stored(table: str) -> str:
        found = table
        for _ in WIDENED:
            found = found if found in weights else widened.get(found, found)
        return found if found in weights else table

    for node in model.graph.node:
        if node.op_type == "Gather" and len(node.input) == 2:
            yield stored(node.input[0]), origin(node.input[1])
        elif node.op_type == "EmbedLayerNormalization" and len(node.input) > 3:
            yield node.input[2], origin(node.input[0])
            yield node.input[3], origin(node.input[8]) if len(node.input) > 8 else ""


def _rows(model: onnx.ModelProto, table: str, *, axes: tuple[int, ...] = (2,)) -> int:
    """Rows of a table of weights, or 0 when it is none: one with so many axes."""
    for tensor in model.graph.initializer:
        if tensor.name == table and len(tensor.dims) in axes:
            return int(tensor.dims[0])
    return 0
