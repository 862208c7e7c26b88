"""What a finished graph says of itself: how its weights are kept, and whether a batch changes a text's vector."""

import math
from collections import Counter

import onnx
from onnx import TensorProto

PRECISIONS = {
    TensorProto.FLOAT: "fp32",
    TensorProto.FLOAT16: "fp16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "int8",
    TensorProto.INT4: "int4",
    TensorProto.UINT4: "int4",
}
ONE_SCALE_A_TENSOR = ("DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM")


def precision_of(model: onnx.ModelProto) -> str:
    """The type that most of the weights have, e.g. ``int8``."""
    counts: Counter[str] = Counter()
    for tensor in model.graph.initializer:
        if tensor.data_type in PRECISIONS:
            counts[PRECISIONS[tensor.data_type]] += math.prod(tensor.dims)
    return counts.most_common(1)[0][0] if counts else "fp32"


def is_batch_dependent(model: onnx.ModelProto) -> bool:
    """Whether a text's vector depends on its neighbours in the batch: one scale for the activations of all texts."""
    return any(node.op_type in ONE_SCALE_A_TENSOR for node in model.graph.node)
