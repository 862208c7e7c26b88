"""What is known of a graph's values while it is lowered: types and shapes, as far as the file and inference tell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import helper

from edgepack.errors import ModelError
from edgepack.models.ort.shapes import with_shapes

UNKNOWN = -1
SMALL = 64
"""Elements of a weight that may be a shape."""


@dataclass(frozen=True, kw_only=True)
class GraphFacts:
    """By a value's name."""

    kinds: Mapping[str, int] = field(default_factory=dict)
    """Element types, as TensorProto numbers them."""
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Sizes; ``UNKNOWN`` where one is free."""

    def rank(self, value: str) -> int | None:
        """The number of axes, where it is known."""
        shape = self.shapes.get(value)
        return None if shape is None else len(shape)

    def size(self, value: str, axis: int) -> int | None:
        """One size, where it is known."""
        shape = self.shapes.get(value)
        if shape is None or not -len(shape) <= axis < len(shape) or shape[axis] == UNKNOWN:
            return None
        return shape[axis]


def facts_of(model: onnx.ModelProto) -> GraphFacts:
    """Types and shapes that the file states, and those that ONNX's own inference adds for the operators that it knows."""
    kinds: dict[str, int] = {}
    shapes: dict[str, Sequence[int]] = {}
    # A value_info without a shape must not hide one that inference found.
    for tensor in model.graph.initializer:
        kinds[tensor.name], shapes[tensor.name] = tensor.data_type, list(tensor.dims)
    for graph in (_inferred(model), model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            of = value.type.tensor_type
            if of.elem_type:
                kinds[value.name] = of.elem_type
            if of.HasField("shape"):
                sizes = [dim.dim_value if dim.HasField("dim_value") else UNKNOWN for dim in of.shape.dim]
                shapes[value.name] = _known(shapes.get(value.name), sizes)
    return GraphFacts(kinds=kinds, shapes=shapes)


def _known(before: Sequence[int] | None, said: Sequence[int]) -> Sequence[int]:
    if before is None or len(before) != len(said):
        return said
    return [old if new == UNKNOWN else new for old, new in zip(before, said, strict=True)]


def _inferred(model: onnx.ModelProto) -> onnx.GraphProto:
    light = _without_weights(model)
    try:
        return with_shapes(light, data_prop=True).graph
    except ModelError:
        raise
    except Exception:  # of operators that are newer than the onnx package; its classes are not importable
        return light.graph


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with inputs in place of its large weights: inference needs no more of them than type and shape."""
    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    # ONNX Runtime runs a graph that does not say its own operators' domain; inference gives up.
    known = {each.domain for each in model.opset_import} | {"", "ai.onnx"}
    light.opset_import.extend(
        helper.make_opsetid(domain, 1)
        for domain in sorted({node.domain for node in model.graph.node} - known)
    )
    light.graph.name = "light"
    for part in ("node", "input", "output", "value_info"):
        getattr(light.graph, part).extend(getattr(model.graph, part))
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= SMALL:
            light.graph.initializer.append(tensor)
        else:
            kind = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            light.graph.input.append(kind)
    return light
