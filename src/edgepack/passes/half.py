"""float16 weights and activations, the graph left unfused: for TensorRT, whose parser does not know fused operators.

Pooling, rotary positions, and whatever sums or squares many numbers stay float32, with casts where the two meet.

Cost: the file has half the size; vectors differ in the seventh digit of the cosine; CPUs run it slower than float32.
Not done by the converter of ``onnxruntime.transformers``: it casts after every node that it leaves alone, the graph's
output included, which costs the vectors four digits.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgepack.errors import UnsupportedModelError
from edgepack.models.graph.editor import GraphEditor, edit
from edgepack.models.graph.pooling import is_pooling
from edgepack.models.graph.precision import require_float16
from edgepack.models.ort.shapes import with_shapes
from edgepack.passes.merge_projections import require_unfused
from edgepack.records.recipe import Note

LARGEST = float(np.finfo(np.float16).max)
CLIPPED = 1e4
"""What a single number beyond float16's range becomes: masks add the lowest float32, of which e to the power is 0, too."""
WIDE_OPERATORS = frozenset(
    {"CumSum", "Pow", "Range", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare", "Sqrt"}
)
"""Operators whose results leave float16's range, or that have no float16 form."""
ELEMENTWISE = frozenset({"Add", "Div", "Max", "Min", "Mul", "Reciprocal", "Sub"})


def half(model: onnx.ModelProto, note: Note) -> onnx.ModelProto:
    """The model in float16; inputs and output keep their types.

    Raises ``UnsupportedModelError`` for a graph with branches or loops, one that came fused, or one that needs float32.
    """
    require_float16(model)
    require_unfused(model)
    if any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute):
        raise UnsupportedModelError(
            "the graph has branches or loops, which are not converted to float16",
            hint="export the model without them, or use --recipe unfused",
        )
    editor = edit(model)
    work = _Conversion(editor=editor, types=_types(model), positions=editor.positions())
    for node in work.editor.take_nodes():
        if work.is_wide(node, note):
            work.keep_wide(node)
        else:
            work.halve(node)
    work.finish_outputs()
    return work.editor.finish()


def _types(model: onnx.ModelProto) -> Mapping[str, int]:
    """Element types of the model's values, by name."""
    graph = with_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return {value.name: value.type.tensor_type.elem_type for value in values}


@dataclass(frozen=True, kw_only=True)
class _Conversion:
    """A graph on its way."""

    editor: GraphEditor
    types: Mapping[str, int]
    positions: frozenset[str]
    halves: dict[str, str] = field(default_factory=dict)
    """Values that a node makes in float16, under the name that it has there."""
    wide: set[str] = field(default_factory=set)
    """float32 values that are numbers a text, not a token and channel: what wide operators made of others."""

    def is_wide(self, node: onnx.NodeProto, note: Note) -> bool:
        if (
            node.op_type in WIDE_OPERATORS
            or is_pooling(node.name)
            or self.positions.intersection(node.output)
        ):
            return True
        weights = [name for name in node.input if self.is_float_weight(name)]
        if any(self.is_beyond(name) for name in weights):
            note(f"{node.name or node.op_type} stays float32: its weights are too large for float16")
            return True
        others = [name for name in node.input if name not in weights]
        scalars = all(self.editor.array(name).size == 1 for name in weights)
        return (
            node.op_type in ELEMENTWISE
            and scalars
            and bool(others)
            and all(name in self.wide for name in others)
        )

    def is_float_weight(self, name: str) -> bool:
        tensor = self.editor.weights.get(name)
        return tensor is not None and tensor.data_type == TensorProto.FLOAT

    def is_beyond(self, name: str) -> bool:
        array = self.editor.array(name)
        return array.size > 1 and float(np.abs(array).max()) > LARGEST

    def is_float(self, name: str) -> bool:
        return self.types.get(name) == TensorProto.FLOAT

    def keep_wide(self, node: onnx.NodeProto) -> None:
        """The node as it was; what it takes of float16 values is cast."""
        changed = deepcopy(node)
        for place, name in enumerate(node.input):
            if name in self.halves:
                changed.input[place] = self.cast(self.halves[name], name, TensorProto.FLOAT)
        self.editor.keep(changed)
        self.wide.update(name for name in node.output if self.is_float(name))

    def halve(self, node: onnx.NodeProto) -> None:
        """The node in float16, whatever of its inputs and outputs was float32."""
        changed = deepcopy(node)
        for place, name in enumerate(node.input):
            changed.input[place] = self.half_of(name)
        for place, name in enumerate(node.output):
            if self.is_float(name):
                self.halves[name] = f"{name}.half"
                changed.output[place] = self.halves[name]
        for attribute in changed.attribute:
            _halve_attribute(changed, attribute)
        self.editor.keep(changed)

    def half_of(self, name: str) -> str:
        """A value's or weight's name in float16; its own where it is no float32."""
        if self.is_float_weight(name):
            array = self.editor.array(name)
            array = np.clip(array, -CLIPPED, CLIPPED) if array.size == 1 else array
            return self.editor.weight(f"{name}.half", array.astype(np.float16))
        if name in self.halves or not self.is_float(name):
            return self.halves.get(name, name)
        return self.cast(name, f"{name}.half", TensorProto.FLOAT16)

    def cast(self, name: str, output: str, to: int) -> str:
        if self.editor.is_made(output):
            return output
        return self.editor.add("Cast", [name], [output], name=f"{output}.cast", to=to)

    def finish_outputs(self) -> None:
        for output in self.editor.model.graph.output:
            if output.name in self.halves:
                self.cast(self.halves[output.name], output.name, TensorProto.FLOAT)


def _halve_attribute(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
    if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
        attribute.i = TensorProto.FLOAT16
    elif attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:
        array = np.clip(numpy_helper.to_array(attribute.t), -LARGEST, LARGEST).astype(np.float16)
        attribute.t.CopyFrom(numpy_helper.from_array(array, attribute.t.name))
    elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        array = np.array(helper.get_attribute_value(attribute), np.float16)
        attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(array)))
