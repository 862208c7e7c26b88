"""Writing ONNX graphs by hand: nodes and initializers with names that say what they are, the same at every run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgepack.models.graph.external_weights import SMALLEST, set_aside

OPSET = 17
IR_VERSION = 10
PRODUCER = "edgepack"
OUTPUT = "sentence_embedding"
PREFIX = "edgepack."
"""Before the names of what is added to a graph that somebody else wrote."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True, kw_only=True)
class TokenVectors:
    """Output of an architecture: a vector for each token."""

    name: str
    """The value's, float32 [batch, sequence, hidden]."""
    counted: str = "attention_mask"
    """The mask of the tokens that count for the text's vector, int64 [batch, sequence]: 1 or 0."""
    layers: tuple[str, ...] = ()
    """What the first layer takes, and what each layer makes, like ``name``; empty where models that weigh them are not supported."""
    float32_only: str = ""
    """Why the model must not compute in float16, e.g. ``its activations leave float16's range``; recipes that do refuse it."""


@dataclass(frozen=True, kw_only=True)
class GraphWriter:
    """Collects nodes and initializers; a node's output has the node's name, so that errors can be traced."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)
    prefix: str = ""
    """Put before every name; keeps names apart from those of a graph that is added to."""
    aside: Path | None = None
    """Where large weights go, of a model that has many."""

    def add(self, operator: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output; returns that output's name."""
        name = self.prefix + name
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, name: str, array: npt.NDArray[Any]) -> str:
        """Add an initializer; one that is there already under this name is taken as it is."""
        name = self.prefix + name
        if name not in self.initializers:
            whole = np.asarray(array, order="C")
            if self.aside is not None and whole.nbytes >= SMALLEST:
                self.initializers[name] = set_aside(self.aside, name, whole)
            else:
                self.initializers[name] = numpy_helper.from_array(whole, name)
        return name

    def ints(self, *values: int) -> str:
        """An int64 vector."""
        return self.weight(f"int64_{'_'.join(str(value) for value in values)}", np.array(values, np.int64))

    def index(self, value: int) -> str:
        """An int64 scalar."""
        return self.weight(f"index_{value}", np.array(value, np.int64))

    def scalar(self, name: str, value: float) -> str:
        """A float32 scalar."""
        return self.weight(name, np.array(value, np.float32))


def token_input(name: str) -> onnx.ValueInfoProto:
    """A graph input, int64 [batch, sequence]."""
    return helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])


def embedding_output(dimension: int) -> onnx.ValueInfoProto:
    """The graph's output, float32 [batch, dimension]."""
    return helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", dimension])


def name_output(writer: GraphWriter, last: str, output: str) -> None:
    """The node that made ``last`` makes the output; an Identity does where that node lies outside the writer."""
    made_by = next((node for node in writer.nodes if last in node.output), None)
    used = any(last in node.input for node in writer.nodes)
    if made_by is None or used:
        writer.nodes.append(helper.make_node("Identity", [last], [output], name=output))
    else:
        made_by.output[0] = output


def finish(
    writer: GraphWriter, *, name: str, dimension: int, more: Sequence[onnx.ValueInfoProto] = ()
) -> onnx.ModelProto:
    """The model of what was written, with the inputs of every edgepack model, as far as it uses them, and its output.

    ``more`` are outputs behind that one.
    """
    used = {value for node in writer.nodes for value in node.input}
    graph = helper.make_graph(
        writer.nodes,
        name,
        [token_input(each) for each in INPUTS if each in used],
        [embedding_output(dimension), *more],
        list(writer.initializers.values()),
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name=PRODUCER
    )
