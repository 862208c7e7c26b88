"""Single operators that other exporters choose otherwise than edgepack's own graphs, as fusions look for them."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from edgepack.models.graph.editor import MICROSOFT, GraphEditor, edit
from edgepack.models.graph.facts import GraphFacts, facts_of

OWN_GELU = {b"none": "Gelu", b"tanh": "FastGelu"}


def usual_operators(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function: no idle casts, norms with a bias, reciprocals as quotients, ONNX's Gelu as ONNX Runtime's, weights second in sums."""
    editor = edit(model)
    facts = facts_of(model)
    outputs = {each.name for each in model.graph.output}
    same: dict[str, str] = {}
    changed = []
    for node in editor.take_nodes():
        given = [same.get(value, value) for value in node.input]
        if _is_idle(node, facts.kinds) and not outputs.intersection(node.output):
            same[node.output[0]] = given[0]
            continue
        taken = onnx.NodeProto()
        taken.CopyFrom(node)
        taken.input[:] = given
        changed.append(_changed(editor, taken, facts))
    return editor.finish() if any(changed) or same else model


def _is_idle(node: onnx.NodeProto, kinds: Mapping[str, int]) -> bool:
    """Whether a node makes what it takes."""
    if node.op_type == "Identity" or (node.op_type == "Concat" and len(node.input) == 1):
        return True
    return node.op_type == "Cast" and kinds.get(node.input[0]) == node.attribute[0].i


def _changed(editor: GraphEditor, node: onnx.NodeProto, facts: GraphFacts) -> bool:
    """Keep a node, or what is usual for it; whether it was changed."""
    name = node.name or node.output[0]
    given, made = list(node.input), list(node.output)
    if node.op_type == "LayerNormalization" and len(given) == 2 and editor.is_vector(given[1]):
        bias = editor.weight(
            f"norm.no_bias_{len(editor.array(given[1]))}", np.zeros_like(editor.array(given[1]))
        )
        editor.add(node.op_type, [*given, bias], made, name=name, attributes=node.attribute)
    elif node.op_type == "Squeeze" and len(given) == 1 and facts.shapes.get(node.input[0]) == [1]:
        editor.add(
            node.op_type, [*given, editor.weight("first_axis", np.zeros(1, np.int64))], made, name=name
        )
    elif node.op_type == "Reciprocal":
        editor.add("Div", [editor.weight("norm.one", np.array(1, np.float32)), *given], made, name=name)
    elif node.op_type == "Gelu" and not node.domain:
        kind = next((helper.get_attribute_value(each) for each in node.attribute), b"none")
        editor.add(OWN_GELU[kind], given, made, name=name, domain=MICROSOFT)
    elif node.op_type in ("Add", "Mul") and given[0] in editor.weights and given[1] not in editor.weights:
        editor.add(node.op_type, given[::-1], made, name=name)
    else:
        editor.keep(node)
        return False
    return True
