"""Attention nodes that came with a model, as projections and MultiHeadAttention.

Optimum and sentence-transformers export graphs at levels (O2 and above) whose three projections are one matrix inside of
Attention. Recipes work on products of their own: that matrix would stay float32.
"""

from itertools import accumulate

import numpy as np
import onnx

from edgepack.models.graph.editor import MICROSOFT, GraphEditor, edit

PARTS = ("query", "key", "value")
TAKEN_OVER = ("num_heads", "mask_filter_value", "scale")
VECTOR, WEIGHT, BIAS, MASK, PAST, ATTENTION_BIAS = range(6)


def split_attention(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function with MultiHeadAttention for Attention; the model itself where it has none of that kind."""
    editor = edit(model)
    if not any(_is_plain(editor, node) for node in model.graph.node):
        return model
    for node in editor.take_nodes():
        if _is_plain(editor, node):
            _take_apart(editor, node)
        else:
            editor.keep(node)
    return editor.finish()


def _is_plain(editor: GraphEditor, node: onnx.NodeProto) -> bool:
    """Whether a node is self-attention with weights and a mask, and nothing of what language models add."""
    return (
        node.op_type == "Attention"
        and node.domain == MICROSOFT
        and editor.is_matrix(node.input[WEIGHT])
        and len(node.input) > BIAS
        and editor.is_vector(node.input[BIAS])
        and not any(node.input[PAST : PAST + 1])
        and len(node.input) <= ATTENTION_BIAS + 1
        and not any(_integers(node, name)[:1] == [1] for name in ("unidirectional", "do_rotary"))
    )


def _take_apart(editor: GraphEditor, node: onnx.NodeProto) -> None:
    given = [*node.input, *[""] * (ATTENTION_BIAS + 1 - len(node.input))]
    weight = editor.array(given[WEIGHT])
    sizes = _integers(node, "qkv_hidden_sizes") or [weight.shape[1] // 3] * 3
    output = node.output[0]
    projected = [
        editor.add(
            "MatMul",
            [given[VECTOR], editor.weight(f"{given[WEIGHT]}.{part}", np.ascontiguousarray(columns))],
            [f"{output}.{part}"],
            name=f"{output}.{part}",
        )
        for part, columns in zip(PARTS, np.split(weight, list(accumulate(sizes))[:2], axis=1), strict=True)
    ]
    inputs = [*projected, given[BIAS], given[MASK], given[ATTENTION_BIAS]]
    while not inputs[-1]:
        inputs.pop()
    editor.add(
        "MultiHeadAttention",
        inputs,
        [output],
        name=node.name,
        domain=MICROSOFT,
        attributes=[each for each in node.attribute if each.name in TAKEN_OVER],
    )


def _integers(node: onnx.NodeProto, name: str) -> list[int]:
    """An attribute of integers, or of one; nothing where the node has none of that name."""
    for each in node.attribute:
        if each.name == name:
            return list(each.ints) or [each.i]
    return []
