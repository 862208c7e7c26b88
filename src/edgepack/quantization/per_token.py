"""What is computed for every token by itself, so that a text's vector does not depend on its neighbours in the batch."""

import numpy as np

from edgepack.models.graph.editor import GraphEditor

REDUCE_AXES_ARE_INPUTS = 18
"""The opset since which ReduceMax has its axes as an input."""


def largest_per_token(editor: GraphEditor, values: str, output: str) -> str:
    """The largest of each token's values, float32 [batch, sequence, 1]."""
    if editor.opset < REDUCE_AXES_ARE_INPUTS:
        return editor.add("ReduceMax", [values], [output], name=output, axes=[-1], keepdims=1)
    axes = editor.weight("token.axes", np.array([-1], np.int64))
    return editor.add("ReduceMax", [values, axes], [output], name=output, keepdims=1)
