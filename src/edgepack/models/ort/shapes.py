"""ONNX's own inference of types and shapes."""

import onnx
from onnx import shape_inference

from edgepack.models.ort.memory import limited_memory, memory_for
from edgepack.models.ort.processor_time import Allowance


def with_shapes(model: onnx.ModelProto, *, data_prop: bool = False) -> onnx.ModelProto:
    """The model with what inference tells of its values; ``data_prop``: of numbers that are shapes, too.

    Raises ``ModelError`` where that takes too much memory, and onnx's own errors.
    """
    with limited_memory("the model", memory_for(), Allowance(model.ByteSize())):
        return shape_inference.infer_shapes(model, data_prop=data_prop)
