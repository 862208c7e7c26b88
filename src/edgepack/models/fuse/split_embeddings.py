"""EmbedLayerNormalization nodes that came with a model, as lookups, sums and LayerNormalization.

ONNX Runtime's optimizer, Optimum from level O2 on and ``edgepack quantize -f onnx`` write them. Recipes work on lookups:
tables inside of the operator would stay float32, and they are half of a small model.
"""

from copy import deepcopy
from typing import Any

import numpy as np
import onnx

from edgepack.models.graph.editor import MICROSOFT, GraphEditor, edit

IDS, TYPES, WORD_TABLE, POSITION_TABLE, TYPE_TABLE, GAMMA, BETA, MASK, POSITIONS = range(9)
VECTOR, LENGTHS, SUM = range(3)
EPSILON = 1e-12
"""The operator's own, where a node does not say."""
TAKE_EITHER = ("Attention", "MultiHeadAttention")
"""Operators that take the mask where they are given the lengths of texts."""


def split_embeddings(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function without such nodes; the model itself where it has none."""
    editor = edit(model)
    if not any(_can_be_split(editor, node) for node in model.graph.node):
        return model
    masks: dict[str, str] = {}
    for node in editor.take_nodes():
        if _can_be_split(editor, node):
            _take_apart(editor, node, masks)
        else:
            kept = deepcopy(node)
            kept.input[:] = [masks.get(value, value) for value in node.input]
            editor.keep(kept)
    return editor.finish()


def _can_be_split(editor: GraphEditor, node: onnx.NodeProto) -> bool:
    """Whether a node is of that kind, its tables are float32, and its lengths go to attention alone."""
    if node.op_type != "EmbedLayerNormalization" or node.domain != MICROSOFT:
        return False
    lengths = node.output[LENGTHS] if len(node.output) > LENGTHS else ""
    takers = editor.consumers(lengths) if lengths else []
    masked = len(node.input) > MASK and node.input[MASK]
    return (
        all(editor.is_matrix(node.input[table]) for table in (WORD_TABLE, POSITION_TABLE))
        and all(taker.op_type in TAKE_EITHER for taker in takers)
        and bool(masked or not takers)
    )


def _take_apart(editor: GraphEditor, node: onnx.NodeProto, masks: dict[str, str]) -> None:
    """Lookups in place of a node; ``masks`` gets what attention takes in place of the lengths."""
    given = [*node.input, *[""] * (POSITIONS + 1 - len(node.input))]
    made = [*node.output, *[""] * (SUM + 1 - len(node.output))]
    name = made[VECTOR]

    def add(operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        return editor.add(operator, inputs, [output], name=output, **attributes)

    words = add("Gather", [given[WORD_TABLE], given[IDS]], f"{name}.words")
    if given[TYPE_TABLE]:
        types = add("Gather", [given[TYPE_TABLE], given[TYPES]], f"{name}.types")
        words = add("Add", [words, types], f"{name}.typed")
    positions = given[POSITIONS] or _count_up(editor, given, name)
    places = add("Gather", [given[POSITION_TABLE], positions], f"{name}.places")
    placed = add("Add", [words, places], made[SUM] or f"{name}.placed")
    epsilon = next((each.f for each in node.attribute if each.name == "epsilon"), EPSILON)
    add("LayerNormalization", [placed, given[GAMMA], given[BETA]], name, axis=-1, epsilon=epsilon)
    masks[made[LENGTHS]] = given[MASK]


def _count_up(editor: GraphEditor, given: list[str], name: str) -> str:
    """int64 [1, sequence]: 0, 1, 2, … cut from a constant, as the operator's fusion expects it."""
    rows = len(editor.array(given[POSITION_TABLE]))
    every = editor.weight(f"{name}.every", np.arange(rows, dtype=np.int64)[None, :])
    zero, one = (editor.weight(f"{name}.{value}", np.array([value], np.int64)) for value in (0, 1))
    index = editor.weight(f"{name}.axis", np.array(1, np.int64))
    shape = editor.add("Shape", [given[IDS]], [f"{name}.shape"], name=f"{name}.shape")
    length = editor.add("Gather", [shape, index], [f"{name}.length"], name=f"{name}.length", axis=0)
    end = editor.add("Unsqueeze", [length, zero], [f"{name}.end"], name=f"{name}.end")
    return editor.add("Slice", [every, zero, end, one, one], [f"{name}.positions"], name=f"{name}.positions")
