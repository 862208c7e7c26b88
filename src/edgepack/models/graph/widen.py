"""Graphs in half precision, as exporters make them for GPUs, in float32: what recipes and processors work on."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

HALF = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "saved_as", "stash_type")


def widen(model: onnx.ModelProto) -> None:
    """Make every value of half precision float32, in place; weights keep their values exactly."""
    graph = model.graph
    for at, tensor in enumerate(graph.initializer):
        if tensor.data_type in HALF:
            graph.initializer[at].CopyFrom(_single(tensor))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_type in HALF:
                attribute.t.CopyFrom(_single(attribute.t))
            elif attribute.name in TYPE_ATTRIBUTES and attribute.i in HALF:
                attribute.i = TensorProto.FLOAT
    _drop_casts_of_weights(graph)
    # Shapes and types of inner values are inferred again by whoever needs them.
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in HALF:
            value.type.tensor_type.elem_type = TensorProto.FLOAT


def _drop_casts_of_weights(graph: onnx.GraphProto) -> None:
    """Remove the casts that widened a weight when the graph ran: they do nothing now, and would hide the weight from recipes."""
    if any(attribute.HasField("g") for node in graph.node for attribute in node.attribute):
        return  # a branch may take such a value by its name
    weights = {tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.FLOAT}
    same = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Cast" and node.input[0] in weights and node.attribute[0].i == TensorProto.FLOAT
    }
    kept = [node for node in graph.node if node.output[0] not in same]
    for node in kept:
        node.input[:] = [same.get(value, value) for value in node.input]
    del graph.node[:]
    graph.node.extend(kept)


def is_half(model: onnx.ModelProto) -> bool:
    """Whether any weight or constant is of half precision."""
    constants = (
        attribute.t for node in model.graph.node for attribute in node.attribute if attribute.HasField("t")
    )
    return any(tensor.data_type in HALF for tensor in (*model.graph.initializer, *constants))


def _single(tensor: onnx.TensorProto) -> onnx.TensorProto:
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name)
