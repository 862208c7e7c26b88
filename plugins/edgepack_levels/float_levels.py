"""float32 weights rounded to N levels, which compress well: for models that are downloaded compressed.

After Shrink Ray's float quantization (https://github.com/usefulsensors/onnx_shrink_ray). The levels are multiples of a power
of two for each output channel, so that the lower half of every float is zero and one byte says most of the rest.

Cost: the file keeps its size, under zstd it has a quarter of it; speed and memory are those of float32, and 256 levels are
about as exact as int8.
"""

from copy import deepcopy

import numpy as np
import numpy.typing as npt
import onnx

from edgepack.api import TargetError
from edgepack.api.axes import Note
from edgepack.api.graphs import ALL, GraphEditor, Patterns, edit, is_chosen, is_embedding_lookup

FEWEST, MOST = 4, 4096


def float_levels(
    model: onnx.ModelProto, note: Note, *, levels: int = 256, layers: Patterns = ALL
) -> onnx.ModelProto:
    """The model with every matrix and table rounded to at most ``levels`` values a channel (of a table: a row).

    ``layers`` are patterns of the weights' names. Raises ``TargetError`` for a number of levels that is invalid.
    """
    if not FEWEST <= levels <= MOST:
        raise TargetError(
            f"pass float-levels: levels is {levels}, expected a number from {FEWEST} to {MOST}",
            hint="256 levels are about as exact as int8",
        )
    editor = edit(model)
    for node in editor.take_nodes():
        changed = deepcopy(node)
        for place, name in enumerate(node.input):
            if editor.is_matrix(name) and is_chosen(name, layers):
                channels = 1 if is_embedding_lookup(editor, node) else 0
                changed.input[place] = _rounded(editor, name, levels, channels)
        editor.keep(changed)
    return editor.finish()


def _rounded(editor: GraphEditor, name: str, levels: int, axis: int) -> str:
    return editor.weight(f"{name}.levels{axis}", few_levels(editor.array(name), levels, axis))


def few_levels(values: npt.NDArray[np.float32], levels: int, axis: int) -> npt.NDArray[np.float32]:
    """Values rounded to multiples of the smallest power of two that reaches the largest along ``axis``."""
    half = levels // 2 - 1
    largest = np.abs(values).max(axis=axis, keepdims=True)
    steps = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1) / half)))
    rounded: npt.NDArray[np.float32] = (np.rint(values / steps) * steps + 0).astype(np.float32)
    return rounded
