"""Rewriting an ONNX graph: nodes are taken one after the other and kept or replaced, weights come and go by name."""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgepack.models.graph.external_weights import values_of

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""


@dataclass(frozen=True, kw_only=True)
class GraphEditor:
    """A copy of a model that is being rewritten; the model itself stays as it is."""

    model: onnx.ModelProto
    weights: dict[str, onnx.TensorProto]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    """Names of the values that the new nodes make."""

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators that the model uses."""
        return int(next(each.version for each in self.model.opset_import if each.domain in ("", "ai.onnx")))

    def take_nodes(self) -> list[onnx.NodeProto]:
        """The nodes as they were, in the graph's order; each is to be kept or replaced."""
        return list(self.model.graph.node)

    def keep(self, node: onnx.NodeProto) -> None:
        """Leave a node as it was."""
        self.nodes.append(node)
        self.made.update(node.output)

    def add(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        name: str,
        domain: str = "",
        attributes: Sequence[onnx.AttributeProto] = (),
        **more: Any,
    ) -> str:
        """Append a node; returns the name of its first output."""
        node = helper.make_node(operator, inputs, outputs, name=name, domain=domain, **more)
        node.attribute.extend(attributes)
        self.keep(node)
        return outputs[0]

    def is_made(self, value: str) -> bool:
        """Whether a node that was kept or added makes this value."""
        return value in self.made

    def is_matrix(self, name: str) -> bool:
        """Whether a name is a float32 weight of two dimensions."""
        tensor = self.weights.get(name)
        return tensor is not None and tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2

    def is_vector(self, name: str) -> bool:
        """Whether a name is a float32 weight of one dimension."""
        tensor = self.weights.get(name)
        return tensor is not None and tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 1

    def producer(self, value: str) -> onnx.NodeProto | None:
        """The node of the model as it was that makes a value."""
        return next((node for node in self.model.graph.node if value in node.output), None)

    def consumers(self, value: str) -> list[onnx.NodeProto]:
        """The nodes of the model as it was that take a value."""
        return [node for node in self.model.graph.node if value in node.input]

    def positions(self) -> frozenset[str]:
        """Values that positions turn vectors by: those whose sine or cosine is taken, all that they are made of, and what else is made of that.

        A token's position has more digits than float16, and the error of an angle grows with it.
        """
        makers = {output: node for node in self.model.graph.node for output in node.output}
        todo = [node for node in self.model.graph.node if node.op_type in ("Cos", "Sin")]
        found: set[str] = set()
        while todo:
            node = todo.pop()
            todo += [makers[name] for name in node.input if name in makers and name not in found]
            found |= {*node.input, *node.output} - {""}
        for node in self.model.graph.node:  # e.g. which tokens are within a window
            others = [name for name in node.input if name and name not in found]
            if found.intersection(node.input) and all(map(self._is_plain, others)):
                found.update(node.output)
        return frozenset(found)

    def _is_plain(self, name: str) -> bool:
        """Whether a name is a single number, or integers."""
        tensor = self.weights.get(name)
        return tensor is not None and (tensor.data_type != TensorProto.FLOAT or math.prod(tensor.dims) == 1)

    def array(self, name: str) -> npt.NDArray[Any]:
        """A weight's values."""
        return values_of(self.weights[name])

    def weight(self, name: str, array: npt.NDArray[Any]) -> str:
        """Add a weight; one that is there already under this name is taken as it is."""
        if name not in self.weights:
            self.weights[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def tensor(self, tensor: onnx.TensorProto) -> str:
        """Add a weight of a type that numpy has not; one that is there already under this name is taken as it is."""
        self.weights.setdefault(tensor.name, tensor)
        return str(tensor.name)

    def finish(self) -> onnx.ModelProto:
        """The rewritten model; weights that nothing uses any more are left out."""
        graph = self.model.graph
        used = {name for node in self.nodes for name in node.input} | {each.name for each in graph.output}
        finished = onnx.ModelProto()
        for descriptor, value in self.model.ListFields():
            if descriptor.name != "graph":
                _assign(finished, descriptor.name, value)
        known = {each.domain for each in finished.opset_import}
        for domain in sorted({node.domain for node in self.nodes} - known - {"", "ai.onnx"}):
            finished.opset_import.append(helper.make_opsetid(domain, 1))
        finished.graph.name = graph.name
        finished.graph.input.extend(graph.input)
        finished.graph.output.extend(graph.output)
        finished.graph.node.extend(self.nodes)
        finished.graph.initializer.extend(tensor for name, tensor in self.weights.items() if name in used)
        return finished


def with_input(node: onnx.NodeProto, place: int, value: str) -> onnx.NodeProto:
    """A copy of a node that takes another value at one place."""
    changed = deepcopy(node)
    changed.input[place] = value
    return changed


def edit(model: onnx.ModelProto) -> GraphEditor:
    """Begin to rewrite a model."""
    return GraphEditor(model=model, weights={tensor.name: tensor for tensor in model.graph.initializer})


def _assign(model: onnx.ModelProto, field_name: str, value: Any) -> None:
    target = getattr(model, field_name)
    if hasattr(target, "extend"):
        target.extend(value)
    else:
        setattr(model, field_name, value)
