"""One matrix product instead of several that take the same value: query, key and value, or gate and up.

TensorRT does this itself and keeps the merged weights in its engine. When they are merged beforehand, the engine holds them
as the model does, so that the engine can be shipped without weights and take the model's.

Cost: none; the products are the same.
"""

import numpy as np
import onnx

from edgepack.errors import UnsupportedModelError
from edgepack.models.fuse.fusion import fused_operators
from edgepack.models.graph.editor import GraphEditor, edit
from edgepack.records.recipe import Note


def merge_projections(model: onnx.ModelProto, note: Note) -> onnx.ModelProto:
    """The model with one MatMul and a Split for the MatMuls that multiply one value with weights of their own.

    Raises ``UnsupportedModelError`` for a graph that came fused.
    """
    require_unfused(model)
    editor = edit(model)
    groups = {group[0].output[0]: group for group in _groups(editor)}
    merged = {node.output[0] for group in groups.values() for node in group}
    for node in editor.take_nodes():
        if node.output[0] in groups:
            _merge(editor, groups[node.output[0]])
        elif node.output[0] not in merged:
            editor.keep(node)
    return editor.finish()


def require_unfused(model: onnx.ModelProto) -> None:
    """Raise ``UnsupportedModelError`` for operators that ONNX Runtime alone has."""
    if fused := fused_operators(model):
        raise UnsupportedModelError(
            f"the graph was fused by ONNX Runtime or Optimum already ({', '.join(sorted(fused))}); this recipe is for TensorRT, "
            "which does not know such operators",
            hint="use the original model: model.safetensors, or the .onnx file before optimization",
        )


def _groups(editor: GraphEditor) -> list[list[onnx.NodeProto]]:
    """MatMuls of the same value, at least two, whose weights nothing else uses."""
    by_input: dict[str, list[onnx.NodeProto]] = {}
    uses: dict[str, int] = {}
    for node in editor.model.graph.node:
        for name in node.input:
            uses[name] = uses.get(name, 0) + 1
        if node.op_type == "MatMul" and editor.is_matrix(node.input[1]):
            by_input.setdefault(node.input[0], []).append(node)
    alone = ([node for node in group if uses[node.input[1]] == 1] for group in by_input.values())
    return [group for group in alone if len(group) > 1]


def _merge(editor: GraphEditor, group: list[onnx.NodeProto]) -> None:
    arrays = [editor.array(node.input[1]) for node in group]
    name = f"{group[0].name or group[0].output[0]}.merged"
    weight = editor.weight(f"{name}.weight", np.concatenate(arrays, axis=1))
    product = editor.add("MatMul", [group[0].input[0], weight], [name], name=name)
    outputs = [node.output[0] for node in group]
    sizes = [array.shape[1] for array in arrays]
    if editor.opset >= 13:
        split = editor.weight(f"{name}.sizes", np.array(sizes, np.int64))
        editor.add("Split", [product, split], outputs, name=f"{name}.split", axis=-1)
    else:
        editor.add("Split", [product], outputs, name=f"{name}.split", axis=-1, split=sizes)
