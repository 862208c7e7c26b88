"""What a graph says of itself: how its weights are kept, what it computes with, and whether a batch changes a vector."""

import math
from collections import Counter

import onnx
from onnx import TensorProto

from edgepack.records.model import FULL_PRECISION

PRECISIONS = {
    TensorProto.FLOAT: FULL_PRECISION,
    TensorProto.DOUBLE: FULL_PRECISION,
    TensorProto.FLOAT16: "fp16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "int8",
    TensorProto.INT4: "int4",
    TensorProto.UINT4: "int4",
}
QUANTIZED = (
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
    "DynamicQuantizeLSTM",
    "ConvInteger",
    "QAttention",
    "QEmbedLayerNormalization",
    "QGemm",
    "MatMulNBits",
    "MatMulBnb4",
    "GatherBlockQuantized",
)
"""Operators by which a graph is known to compute with integers; those of QLinear… besides."""
ONE_SCALE_A_TENSOR = ("DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM")
IN_BLOCKS = "MatMulNBits"
"""Its weights are packed into bytes; the attribute ``bits`` says how many each has."""


def quantized_by(model: onnx.ModelProto) -> str:
    """The first such operator: the graph was quantized while it was trained, or afterwards by another tool. Or nothing."""
    names = (node.op_type for node in model.graph.node)
    return next((name for name in names if name in QUANTIZED or name.startswith("QLinear")), "")


def precision_of(model: onnx.ModelProto) -> str:
    """The type that most of the weights have, e.g. ``int8``; of a quantized graph, that most of the integers have.

    A graph whose tables stay float32 while its matrices are integers is no fp32 model, however large the tables are.
    """
    bits = {
        node.input[1]: next((each.i for each in node.attribute if each.name == "bits"), 4)
        for node in model.graph.node
        if node.op_type == IN_BLOCKS
    }
    counts: Counter[str] = Counter()
    for tensor in model.graph.initializer:
        if tensor.name in bits:
            counts[f"int{bits[tensor.name]}"] += math.prod(tensor.dims) * 8 // bits[tensor.name]
        elif tensor.data_type in PRECISIONS:
            counts[PRECISIONS[tensor.data_type]] += math.prod(tensor.dims)
    if quantized_by(model):
        integers = Counter({name: count for name, count in counts.items() if name.startswith("int")})
        # Fake quantization, as training leaves it: float weights that the graph itself rounds to bytes.
        return integers.most_common(1)[0][0] if integers else "int8"
    return counts.most_common(1)[0][0] if counts else FULL_PRECISION


def is_batch_dependent(model: onnx.ModelProto) -> bool:
    """Whether a text's vector depends on its neighbours in the batch: one scale for the activations of all texts."""
    return any(node.op_type in ONE_SCALE_A_TENSOR for node in model.graph.node)
