"""Computing in float16: for execution providers that do it faster than float32, as GPUs do.

The conversion is onnxruntime.transformers' own (https://onnxruntime.ai/docs/performance/model-optimizations/float16.html). Pooling and
normalisation stay float32: they are a thousandth of the work, and sums over tokens are where float16 would lose most.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgepack.errors import TargetError
from edgepack.models.graph.writer import OUTPUT
from edgepack.records.recipe import Note

MANTISSA = 10
INFINITE = 0x7C00
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


def half_fused(model: onnx.ModelProto, note: Note, *, mantissa: int = MANTISSA) -> onnx.ModelProto:
    """The model computed in float16, from token ids to token vectors; inputs and output stay as they are.

    ``mantissa`` rounds the weights to so many bits after the leading one (float16 has 10): the file is as large, and
    compresses better by two bits of sixteen for two bits less. A model in which no encoder is recognised is converted
    whole, and ``note`` says so. Raises ``TargetError`` for another number of bits than 4 to 10.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    if not 4 <= mantissa <= MANTISSA:
        raise TargetError(
            f"pass half-fused: mantissa is {mantissa}", hint="float16 has 10 bits; 8 are enough to compress"
        )
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
    _keep_wide(converted, {node.name for node in blocked})
    assert any(output.name == OUTPUT for output in converted.graph.output)
    for tensor in converted.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16 and mantissa < MANTISSA and len(tensor.dims) > 1:
            tensor.CopyFrom(
                numpy_helper.from_array(rounded(numpy_helper.to_array(tensor), mantissa), tensor.name)
            )
    return converted


def rounded(weights: npt.NDArray[np.float16], mantissa: int) -> npt.NDArray[np.float16]:
    """The nearest float16 numbers with so many bits after the leading one; ties to even, never beyond the largest."""
    spare = MANTISSA - mantissa
    if not spare:
        return weights
    bits = weights.view(np.uint16).astype(np.uint32)
    even = bits >> spare & 1
    nearest = (bits + (1 << spare >> 1) - 1 + even) >> spare << spare
    beyond = (nearest & 0x7FFF) >= INFINITE
    return np.where(beyond, bits >> spare << spare, nearest).astype(np.uint16).view(np.float16)


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


def _keep_wide(model: onnx.ModelProto, names: set[str]) -> None:
    """Take out what the conversion puts behind nodes that stay float32: a cast to float16, and one back."""
    graph = model.graph
    makers = {output: node for node in graph.node for output in node.output}

    def source_of(name: str) -> str | None:
        """The float32 value that a pair of casts ends with a copy of."""
        back = makers.get(name)
        there = makers.get(back.input[0]) if back is not None and back.op_type == "Cast" else None
        maker = makers.get(there.input[0]) if there is not None and there.op_type == "Cast" else None
        return there.input[0] if there is not None and maker is not None and maker.name in names else None

    instead = {name: source for name in makers if (source := source_of(name)) is not None}
    outputs = {instead[output.name]: output.name for output in graph.output if output.name in instead}
    for node in graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = outputs.get(instead.get(name, name), instead.get(name, name))
        if node.name in names:
            for at, name in enumerate(node.output):
                node.output[at] = outputs.get(name, name)
    used = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    replaced = set(outputs.values())
    kept = [
        node
        for node in graph.node
        if node.op_type != "Cast"
        or (
            any(name in used for name in node.output)
            and not (node.output[0] in replaced and node.name not in names)
        )
    ]
    while True:
        used = {name for node in kept for name in node.input} | {output.name for output in graph.output}
        fewer = [node for node in kept if node.op_type != "Cast" or node.output[0] in used]
        if len(fewer) == len(kept):
            break
        kept = fewer
    del graph.node[:]
    graph.node.extend(kept)
