"""Operators by which a graph is known to compute with integers."""

import onnx

QUANTIZED = (
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "QLinearMatMul",
    "DynamicQuantizeMatMul",
    "QAttention",
    "MatMulNBits",
    "GatherBlockQuantized",
)


def quantized_by(model: onnx.ModelProto) -> str:
    """The first such operator: the graph was quantized while it was trained, or afterwards by another tool. Or nothing."""
    return next((node.op_type for node in model.graph.node if node.op_type in QUANTIZED), "")
