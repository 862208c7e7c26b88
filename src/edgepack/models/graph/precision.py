"""What a graph says of itself: how its weights are kept, what it computes with, and whether a batch changes a vector."""

import math
from collections import Counter

import onnx
from onnx import TensorProto

from edgepack.errors import UnsupportedModelError
from edgepack.records.model import FULL_PRECISION

FLOAT32_ONLY = "edgepack.float32_only"
"""The key of a graph's metadata that says why it must not be computed in float16."""
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
INTEGERS = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4)
SMALLEST_MATRIX = 64
"""Elements of a matrix of integers that is taken for weights."""
LARGE_MATRIX, MUCH = 4096, 0.2
"""Elements of a matrix that is counted, and the share of all elements above which those in float32 are told of."""
SCALED = {"DequantizeLinear": 1, IN_BLOCKS: 2, "GatherBlockQuantized": 2}
"""Operator → the input from which on its weights' scales and zero points come."""


def require_float16(model: onnx.ModelProto) -> None:
    """Raise ``UnsupportedModelError`` for a model that its architecture says must not compute in float16."""
    reason = next((each.value for each in model.metadata_props if each.key == FLOAT32_ONLY), "")
    if reason:
        raise UnsupportedModelError(
            f"the model cannot be computed in float16: {reason}",
            hint="use a recipe that computes in float32, e.g. --recipe int8",
        )


def quantized_by(model: onnx.ModelProto) -> str:
    """The first such operator: the graph was quantized while it was trained, or afterwards by another tool. Or nothing.

    Weights of integers by themselves count as well, which a graph makes floats of with Cast and Mul.
    """
    if found := _integer_operator(model):
        return found
    weights = {
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type in INTEGERS and len(tensor.dims) > 1 and math.prod(tensor.dims) >= SMALLEST_MATRIX
    }
    taking = (node.op_type for node in model.graph.node if weights.intersection(node.input))
    return next(taking, "")


def parameters_of(model: onnx.ModelProto) -> dict[str, int]:
    """How many numbers each weight holds, by its name; scales and zero points of other weights are none."""
    bits = _packed(model)
    scales = {
        name
        for node in model.graph.node
        if node.op_type in SCALED
        for name in node.input[SCALED[node.op_type] :]
    }
    return {
        tensor.name: math.prod(tensor.dims) * 8 // bits.get(tensor.name, 8)
        for tensor in model.graph.initializer
        if tensor.data_type in PRECISIONS and tensor.dims and tensor.name not in scales
    }


def _packed(model: onnx.ModelProto) -> dict[str, int]:
    """Weights that are packed into bytes, and the bits that each number has."""
    return {
        node.input[1]: next((each.i for each in node.attribute if each.name == "bits"), 4)
        for node in model.graph.node
        if node.op_type == IN_BLOCKS
    }


def _integer_operator(model: onnx.ModelProto) -> str:
    names = (node.op_type for node in model.graph.node)
    return next((name for name in names if name in QUANTIZED or name.startswith("QLinear")), "")


def precision_of(model: onnx.ModelProto) -> str:
    """The type that most of the weights have, e.g. ``int8``; of a quantized graph, that most of the integers have.

    A graph whose tables stay float32 while its matrices are integers is no fp32 model, however large the tables are.
    """
    bits = _packed(model)
    counts: Counter[str] = Counter()
    for tensor in model.graph.initializer:
        if tensor.name in bits:
            counts[f"int{bits[tensor.name]}"] += math.prod(tensor.dims) * 8 // bits[tensor.name]
        elif tensor.data_type in PRECISIONS:
            counts[PRECISIONS[tensor.data_type]] += math.prod(tensor.dims)
    if _integer_operator(model):
        integers = Counter({name: count for name, count in counts.items() if name.startswith("int")})
        # Fake quantization, as training leaves it: float weights that the graph itself rounds to bytes.
        return integers.most_common(1)[0][0] if integers else "int8"
    return counts.most_common(1)[0][0] if counts else FULL_PRECISION


def left_whole(model: onnx.ModelProto) -> str:
    """How many matrices of a graph that computes with integers are in float32 all the same, where these are much of it; else nothing."""
    if not _integer_operator(model):
        return ""
    matrices = [
        tensor
        for tensor in model.graph.initializer
        if len(tensor.dims) > 1 and math.prod(tensor.dims) >= LARGE_MATRIX and tensor.data_type in PRECISIONS
    ]
    whole = [tensor for tensor in matrices if tensor.data_type == TensorProto.FLOAT]
    size = sum(math.prod(tensor.dims) for tensor in whole)
    if size <= MUCH * sum(math.prod(tensor.dims) for tensor in matrices):
        return ""
    return f"{len(whole)} of {len(matrices)} matrices stay float32, {4 * size / 1e6:.1f} MB"


def is_batch_dependent(model: onnx.ModelProto) -> bool:
    """Whether a text's vector depends on its neighbours in the batch: one scale for the activations of all texts."""
    return any(node.op_type in ONE_SCALE_A_TENSOR for node in model.graph.node)
