"""The pass: float32 weights keep the first bits of their fraction. The file compresses better, the model runs as before."""

import numpy as np
import onnx
from onnx import numpy_helper

from edgepack import api
from edgepack.api.axes import Note
from edgepack.api.graphs import edit

FRACTION = 23
"""Bits of a float32's fraction."""


def shorten(model: onnx.ModelProto, note: Note, *, bits: int = 12) -> onnx.ModelProto:
    """The model with weights of ``bits`` bits after the point. Parameters are keywords with a type and a default."""
    if not 1 <= bits <= FRACTION:
        raise api.UsageError(f"pass acme: bits is {bits}", hint=f"1 to {FRACTION}")
    mask = np.uint32((0xFFFFFFFF << (FRACTION - bits)) & 0xFFFFFFFF)
    editor, changed = edit(model), 0
    for tensor in model.graph.initializer:
        # Matrices alone: single numbers are constants, such as what hides padding, the lowest float32.
        if editor.is_matrix(tensor.name):
            kept = (numpy_helper.to_array(tensor).view(np.uint32) & mask).view(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(kept, tensor.name))
            changed += 1
    if not changed:
        note("no float32 weights to shorten")
    return model
