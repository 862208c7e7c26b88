"""Embedding tables as integers: rows are gathered first and expanded after, the table itself never is."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from edgepack.models.graph.editor import GraphEditor
from edgepack.quantization.arrays import Doubles
from edgepack.quantization.entropy_coded import entropy_coded_rows
from edgepack.quantization.int8 import quantized_rows
from edgepack.quantization.token_ranks import token_ranks

FEW_ROWS = 1024
"""Tables with fewer rows (positions, token types) weigh little and are added to every token: int8 is exact enough."""

ROWS_AT_ONCE = 1 << 14
"""Of a table, each by itself: what is worked out on the way has several times the size of the rows."""


def int8_embedding(
    editor: GraphEditor,
    node: onnx.NodeProto,
    *,
    steps: float = 0.0,
    rarity: float = 0.0,
    tokenizer: Path | None = None,
    moments: Doubles | None = None,
    bit_cost: float = 0.0,
) -> None:
    """Replace a Gather of float32 rows: int8 rows and their scales are gathered, then multiplied.

    ``steps`` is the rows' standard deviation in integers; 0 spreads each row over all of them. ``rarity`` is explained at
    ``entropy_coded_rows``; ``tokenizer`` says which tokens are rare. With ``moments`` of the dimension a row's numbers make up for one
    another, and no piece of one or two characters is rare; ``bit_cost`` is explained at ``reach_of``.
    """
    table, ids, output = node.input[0], node.input[1], node.output[0]
    floats = editor.array(table)
    ranks = token_ranks(tokenizer if steps and rarity else None, len(floats), pieces=moments is not None)
    parts = []
    for start in range(0, len(floats), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        if steps:
            parts.append(
                entropy_coded_rows(
                    floats[some], steps, rarity=rarity, ranks=ranks[some], moments=moments, bit_cost=bit_cost
                )
            )
        else:
            parts.append(quantized_rows(floats[some]))
    values = np.concatenate([integers for integers, _ in parts])
    scales = np.concatenate([factors for _, factors in parts])
    rows = editor.weight(f"{table}.int8", values)
    factors = editor.weight(f"{table}.scales", scales)
    row = editor.add("Gather", [rows, ids], [f"{output}.int8"], name=f"{node.name}.int8")
    factor = editor.add("Gather", [factors, ids], [f"{output}.scale"], name=f"{node.name}.scale")
    value = editor.add(
        "Cast", [row], [f"{output}.unscaled"], name=f"{node.name}.unscaled", to=TensorProto.FLOAT
    )
    editor.add("Mul", [value, factor], [output], name=node.name)


def is_embedding_lookup(editor: GraphEditor, node: onnx.NodeProto) -> bool:
    """Whether a node picks rows of a float32 table."""
    axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
    return node.op_type == "Gather" and axis == 0 and editor.is_matrix(node.input[0])
