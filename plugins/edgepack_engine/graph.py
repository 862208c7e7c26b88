"""An ONNX graph as its reader wants it: what makes a value, which values are constants, and what is refused."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from edgepack.api import UnsupportedModelError

Array = npt.NDArray[Any]
HINT = "--target linux-x86-min, on arm64 linux-arm64-min, takes it: ONNX Runtime computes any graph"


class Graph:
    """Graph by its values: what makes a value, and which values are constants."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._makers = {name: node for node in graph.node for name in node.output if name}
        self._constants = {tensor.name: tensor for tensor in graph.initializer}

    def maker(self, name: str, *kinds: str) -> onnx.NodeProto | None:
        """The node that makes a value, if it is one of these operators (none given: any)."""
        node = self._makers.get(name)
        return node if node is not None and (not kinds or node.op_type in kinds) else None

    def need(self, name: str, *kinds: str) -> onnx.NodeProto:
        """The node that makes a value, which has to be one of these operators. Raises ``UnsupportedModelError``."""
        node = self.maker(name, *kinds)
        if node is None:
            raise self.no_step(name)
        return node

    def constant(self, name: str) -> Array | None:
        """A constant's numbers; none for a value that is computed."""
        return numpy_helper.to_array(self._constants[name]) if name in self._constants else None

    def vector(self, name: str) -> Array | None:
        """A constant's numbers as one row of float32; none for no name. Raises ``UnsupportedModelError`` for what is computed."""
        if not name:
            return None
        found = self.constant(name)
        if found is None:
            raise self.no_step(name)
        return found.reshape(-1).astype("<f4")

    def number(self, name: str) -> float:
        """A constant that is one number. Raises ``UnsupportedModelError``."""
        found = self.constant(name)
        if found is None or found.size != 1:
            raise self.no_step(name)
        return float(found.item())

    def no_step(self, name: str) -> UnsupportedModelError:
        """Error about a value that nothing of a plan computes."""
        node = self._makers.get(name)
        if node is None:
            what = "a constant" if name in self._constants else f"input {name}" if name else "a missing input"
            return UnsupportedModelError(
                f"the engine has no step for a graph in which {what} stands where encoders compute something",
                hint=HINT,
            )
        return UnsupportedModelError(
            f"the engine has no step for operator {node.op_type} where this graph has it", hint=HINT
        )


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """An attribute of a node, or what it is unless it is said."""
    found = [onnx.helper.get_attribute_value(each) for each in node.attribute if each.name == name]
    return found[0] if found else default


def inputs_of(node: onnx.NodeProto, count: int) -> list[str]:
    """The names of so many inputs, empty where there are fewer."""
    return [*node.input, *[""] * count][: max(count, len(node.input))]


def same(value: float, wanted: float) -> bool:
    """Whether a constant of a graph is that number, as float32 has it."""
    return bool(np.isclose(value, wanted, rtol=1e-5, atol=0))
