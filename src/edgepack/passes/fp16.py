"""float16 weights that are cast to float32 when the graph runs: everything is computed in float32.

ONNX Runtime's CPU provider has float16 kernels for hardly any operator, on x86 for none of an encoder's. Rows of embedding
tables are cast after they are gathered. Execution providers that compute in float16 take ``half`` or ``half-fused``.

Cost: the file has half the size, the vectors those of full precision; the casts make short texts half as fast.
"""

from copy import deepcopy

import numpy as np
import onnx
from onnx import TensorProto

from edgepack.models.graph.editor import GraphEditor, edit
from edgepack.quantization.embeddings import is_embedding_lookup
from edgepack.quantization.layers import is_chosen
from edgepack.records.recipe import ALL, Note, Patterns

LARGEST = float(np.finfo(np.float16).max)


def fp16(model: onnx.ModelProto, note: Note, *, layers: Patterns = ALL) -> onnx.ModelProto:
    """The model with float16 matrices and tables. Weights beyond float16's range stay as they are, and ``note`` says so.

    ``layers`` are patterns of the weights' names.
    """
    editor = edit(model)
    exact = editor.positions()
    for node in editor.take_nodes():
        if exact.intersection(node.output):
            editor.keep(node)
        elif is_embedding_lookup(editor, node) and _is_taken(editor, node.input[0], layers, note):
            _pick_and_cast(editor, node)
        else:
            _cast_and_use(editor, node, layers, note)
    return editor.finish()


def _pick_and_cast(editor: GraphEditor, node: onnx.NodeProto) -> None:
    half, output = _half(editor, node.input[0]), node.output[0]
    rows = editor.add("Gather", [half, node.input[1]], [f"{output}.fp16"], name=f"{node.name}.fp16")
    editor.add("Cast", [rows], [output], name=node.name, to=TensorProto.FLOAT)


def _cast_and_use(editor: GraphEditor, node: onnx.NodeProto, layers: Patterns, note: Note) -> None:
    changed = deepcopy(node)
    for place, name in enumerate(node.input):
        if editor.is_matrix(name) and _is_taken(editor, name, layers, note):
            wide = f"{name}.fp32"
            if not editor.is_made(wide):
                editor.add("Cast", [_half(editor, name)], [wide], name=wide, to=TensorProto.FLOAT)
            changed.input[place] = wide
    editor.keep(changed)


def _is_taken(editor: GraphEditor, name: str, layers: Patterns, note: Note) -> bool:
    if not is_chosen(name, layers):
        return False
    if np.abs(editor.array(name)).max() > LARGEST:
        note(f"{name} stays float32: its weights are too large for float16")
        return False
    return True


def _half(editor: GraphEditor, name: str) -> str:
    return editor.weight(f"{name}.fp16", editor.array(name).astype(np.float16))
