"""Which weights a pass takes: matrices by name, and what the graph feeds them."""

from fnmatch import fnmatchcase

import onnx

from edgepack.models.graph.editor import GraphEditor
from edgepack.records.recipe import Patterns

NORMALIZATIONS = (
    *("LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization"),
    *("SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"),
)
ENCODER = (*NORMALIZATIONS, "Attention", "MultiHeadAttention")
"""Operators of an encoder whose outputs are of about the same size for every token."""
WITH_BIAS = ("BiasGelu", "FastGelu")
"""Activation functions that take a bias, too."""


def is_chosen(name: str, layers: Patterns) -> bool:
    """Whether a weight's name is among those that a pass was told to take."""
    return any(fnmatchcase(name, pattern) for pattern in layers)


def is_weight_matmul(editor: GraphEditor, node: onnx.NodeProto, layers: Patterns) -> bool:
    """Whether a node multiplies by a float32 matrix that was chosen."""
    return node.op_type == "MatMul" and editor.is_matrix(node.input[1]) and is_chosen(node.input[1], layers)


def matrix_inputs(editor: GraphEditor, layers: Patterns) -> dict[str, str]:
    """Chosen matrices → the value that each is multiplied with."""
    return {
        node.input[1]: node.input[0] for node in editor.take_nodes() if is_weight_matmul(editor, node, layers)
    }


def bias_input(editor: GraphEditor, node: onnx.NodeProto, value: str) -> int | None:
    """Which input of a node is a constant bias that is added to ``value`` before anything else is done to it."""
    if node.op_type == "SkipLayerNormalization" and len(node.input) == 5 and value == node.input[0]:
        place = 4
    elif (node.op_type in WITH_BIAS and len(node.input) == 2) or node.op_type == "Add":
        place = 1 if node.input[0] == value else 0
    else:
        return None
    return place if editor.is_vector(node.input[place]) else None
