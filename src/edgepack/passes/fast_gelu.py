"""GELU by tanh instead of the error function: the approximation of https://arxiv.org/abs/1606.08415.

Cost: it is off by at most 0.0005, far less than a step of eight bits; MLAS computes it in about half the time.
"""

import onnx

from edgepack.models.graph.editor import MICROSOFT, edit
from edgepack.records.recipe import Note

EXACT = ("BiasGelu", "Gelu")
FAST = "FastGelu"


def fast_gelu(model: onnx.ModelProto, note: Note) -> onnx.ModelProto:
    """The model with FastGelu in the place of every fused GELU."""
    if not any(node.op_type in EXACT for node in model.graph.node):
        note("no GELU to make faster")
        return model
    editor = edit(model)
    for node in editor.take_nodes():
        if node.op_type in EXACT:
            editor.add(FAST, list(node.input), list(node.output), name=node.name, domain=MICROSOFT)
        else:
            editor.keep(node)
    return editor.finish()
