"""Computing in float16: for execution providers that do it faster than float32, as GPUs do.

The conversion is onnxruntime.transformers' own (https://onnxruntime.ai/docs/performance/model-optimizations/float16.html). Pooling and
normalisation stay float32: they are a thousandth of the work, and sums over tokens are where float16 would lose most.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from edgepack.models.graph_writer import OUTPUT
from edgepack.recipes.recipe import Note, Recipe
from edgepack.records import Pass

RECIPE = Recipe(
    name="half-fused",
    summary="fused and computed in float16, for GPUs: half the size; slower than float32 on CPUs",
    passes=(Pass(name="fuse"), Pass(name="half-fused")),
)
LAYERS = (
    "SkipLayerNormalization",
    "LayerNormalization",
    "EmbedLayerNormalization",
    "Attention",
    "MultiHeadAttention",
)
"""Operators of the encoder: what comes after the last of them pools."""
WHOLE_NUMBERS = (
    "Cast",
    "Shape",
    "Size",
    "Range",
    "ConstantOfShape",
    "Unsqueeze",
    "Squeeze",
    "Reshape",
    "Slice",
    "CumSum",
)
"""Operators that an encoder uses on masks, ids and shapes: what pooling takes of those is not to be cast."""


def half_fused(model: onnx.ModelProto, note: Note) -> onnx.ModelProto:
    """The model computed in float16, from token ids to token vectors; inputs and output stay as they are.

    A model in which no encoder is recognised is converted whole, and ``note`` says so.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    blocked = pooling_nodes(copy)
    if not blocked:
        note("pooling in float16 too: no encoder is recognised")
    # Without types of the values between nodes, the conversion would not cast what the pooling takes from the encoder.
    copy.graph.value_info.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in _handed_over(copy, blocked)
    )
    converted: onnx.ModelProto = convert_float_to_float16(
        copy, keep_io_types=True, node_block_list=[node.name for node in blocked], disable_shape_infer=True
    )
    assert any(output.name == OUTPUT for output in converted.graph.output)
    return converted


def pooling_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes that are not needed for any encoder operator's result; all of them have names afterwards."""
    makers = {output: node for node in model.graph.node for output in node.output}
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
    todo = [node for node in model.graph.node if node.op_type in LAYERS]
    encoder: set[str] = set()
    while todo:
        node = todo.pop()
        if node.name not in encoder:
            encoder.add(node.name)
            todo += [makers[name] for name in node.input if name in makers]
    return [node for node in model.graph.node if node.name not in encoder] if encoder else []


def _handed_over(model: onnx.ModelProto, pooling: list[onnx.NodeProto]) -> list[str]:
    """The float values that pooling takes from the encoder."""
    names = {node.name for node in pooling}
    wanted = {name for node in pooling for name in node.input}
    return [
        output
        for node in model.graph.node
        if node.name not in names and node.op_type not in WHOLE_NUMBERS
        for output in node.output[:1]
        if output in wanted
    ]
