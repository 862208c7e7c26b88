"""float16 weights and activations in a fused graph: for execution providers that compute in it, as CUDA's does.

The conversion is that of ``onnxruntime.transformers``
(https://onnxruntime.ai/docs/performance/model-optimizations/float16.html). Pooling and normalisation stay float32: they
are a thousandth of the work, and sums over tokens are where float16 would lose most. So do rotary positions.

Cost: the file has half the size; CPUs run it slower than float32.
"""

from copy import deepcopy

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgepack.errors import TargetError
from edgepack.models.graph.editor import edit
from edgepack.models.graph.external_weights import gathered_where_they_fit
from edgepack.models.graph.precision import require_float16
from edgepack.models.graph.writer import OUTPUT
from edgepack.models.ort.shapes import with_shapes
from edgepack.quantization.layers import ENCODER
from edgepack.records.recipe import Note

MANTISSA = 10
INFINITE = 0x7C00
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
    require_float16(model)
    copy = deepcopy(gathered_where_they_fit(model))
    blocked = pooling_nodes(copy)
    if not blocked:
        note("pooling in float16 too: no encoder is recognised")
    exact = edit(copy).positions()
    places = [node for node in copy.graph.node if exact.intersection(node.output)]
    # Without types of the values between nodes, the conversion would not cast what the pooling takes from the encoder,
    # nor what that takes of positions.
    handed = {*_handed_over(copy, blocked), *_floats_of(places, copy)}
    copy.graph.value_info.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sorted(handed)
    )
    wide = {node.name for node in (*blocked, *places)}
    converted: onnx.ModelProto = convert_float_to_float16(
        copy,
        keep_io_types=True,
        node_block_list=sorted(wide),
        disable_shape_infer=bool(blocked),
    )
    _without_round_trips(converted, wide)
    assert any(output.name == OUTPUT for output in converted.graph.output)
    for tensor in converted.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16 and mantissa < MANTISSA and len(tensor.dims) > 1:
            tensor.CopyFrom(
                numpy_helper.from_array(
                    rounded_mantissas(numpy_helper.to_array(tensor), mantissa), tensor.name
                )
            )
    return converted


def rounded_mantissas(weights: npt.NDArray[np.float16], mantissa: int) -> npt.NDArray[np.float16]:
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
    """The nodes after the last of the encoder's operators, needed for none of their results; all of them have names afterwards."""
    makers = {output: node for node in model.graph.node for output in node.output}
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
    todo = [node for node in model.graph.node if node.op_type in ENCODER]
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


def _floats_of(nodes: list[onnx.NodeProto], model: onnx.ModelProto) -> set[str]:
    """The float values that other nodes take of these, which begin with the graph's inputs."""
    names, inside = {name for node in nodes for name in node.input}, {node.name for node in nodes}
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.node.extend(nodes)
    part.graph.input.extend(model.graph.input)
    part.graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in names)
    floats = {
        each.name
        for each in with_shapes(part).graph.value_info
        if each.type.tensor_type.elem_type == TensorProto.FLOAT
    }
    return {name for node in model.graph.node if node.name not in inside for name in node.input} & floats


def _without_round_trips(model: onnx.ModelProto, wide: set[str]) -> None:
    """Take out the pairs of casts, to float16 and back, that the conversion puts behind nodes that stay float32."""
    graph = model.graph
    originals = _round_trips(graph, wide)
    # A graph's output keeps its name: what its pair of casts began with is called like it.
    named = {originals[output.name]: output.name for output in graph.output if output.name in originals}
    for node in graph.node:
        for at, name in enumerate(node.input):
            original = originals.get(name, name)
            node.input[at] = named.get(original, original)
        if node.name in wide:
            for at, name in enumerate(node.output):
                node.output[at] = named.get(name, name)
    made_twice = set(named.values())
    kept = [node for node in graph.node if node.name in wide or node.output[0] not in made_twice]
    del graph.node[:]
    graph.node.extend(_without_unused_casts(kept, {output.name for output in graph.output}))


def _round_trips(graph: onnx.GraphProto, wide: set[str]) -> dict[str, str]:
    """Values that are float32 again after a cast to float16 → the values of ``wide`` nodes that they were before."""
    makers = {output: node for node in graph.node for output in node.output}
    casts = {output: node.input[0] for output, node in makers.items() if node.op_type == "Cast"}
    twice = {name: casts[half] for name, half in casts.items() if half in casts}
    return {name: value for name, value in twice.items() if value in makers and makers[value].name in wide}


def _without_unused_casts(nodes: list[onnx.NodeProto], outputs: set[str]) -> list[onnx.NodeProto]:
    """The nodes less the casts that no node and no output of the graph takes, nor other such casts."""
    while True:
        used = {name for node in nodes for name in node.input} | outputs
        fewer = [node for node in nodes if node.op_type != "Cast" or node.output[0] in used]
        if len(fewer) == len(nodes):
            return nodes
        nodes = fewer
