"""What a graph makes of the vectors of a text's tokens: poolings, unit vectors, and functions of single numbers."""

from dataclasses import dataclass

import numpy as np
import onnx

from edgepack_engine.graph import Graph, attribute, inputs_of
from edgepack_engine.plan import Combination, Function, Pooled

MASK = "attention_mask"
SMALLEST = 1e-6
"""Above what keeps a divisor from being zero."""
MOST = float(np.finfo(np.float32).max)
COMBINED = {"Add": Combination.ADDED, "Sub": Combination.SUBTRACTED, "Mul": Combination.TIMES}
SHARES = {"Softmax": 0, "LogSoftmax": 1}


def pooling_of(graph: Graph, node: onnx.NodeProto) -> tuple[Pooled, str] | None:
    """How a value is pooled, and of what; none for one that is not."""
    if node.op_type == "Gather" and attribute(node, "axis", 0) == 1:
        index = graph.constant(node.input[1])
        if index is not None and index.size == 1 and index.item() == 0:
            return Pooled.FIRST, node.input[0]
    if node.op_type == "ReduceMax" and axes_of(graph, node) == [1]:
        kept = graph.maker(node.input[0], "Where")
        if kept is not None and _of_mask(graph, kept.input[0]):
            return Pooled.LARGEST, kept.input[1]
    if node.op_type != "Div" or graph.maker(node.input[0], "Squeeze") is None:
        return None
    product = graph.maker(graph.need(node.input[0]).input[0], "MatMul")
    row = None if product is None else graph.maker(product.input[0], "Unsqueeze")
    if product is None or row is None:
        return None
    weights = graph.need(row.input[0], "Cast", "Mul")
    if weights.op_type == "Cast":
        by_root = graph.maker(node.input[1], "Sqrt") is not None
        found = (Pooled.ROOT if by_root else Pooled.MEAN) if weights.input[0] == MASK else None
    else:
        kind = graph.need(weights.input[0], "CumSum", "Cast").op_type
        found = Pooled.RISING if kind == "CumSum" else Pooled.LAST
    return None if found is None else (found, product.input[1])


def _of_mask(graph: Graph, name: str) -> bool:
    """Whether a value is the mask, cast and with another axis."""
    node = graph.maker(name, "Cast", "Unsqueeze")
    return name == MASK or (node is not None and _of_mask(graph, node.input[0]))


def without_padding(graph: Graph, name: str) -> str:
    """The value that is kept for tokens, and is 0 for padding."""
    node = graph.maker(name, "Mul")
    return node.input[0] if node is not None and _of_mask(graph, node.input[1]) else name


def axes_of(graph: Graph, node: onnx.NodeProto) -> list[int]:
    """Over which axes a node reduces."""
    said = inputs_of(node, 2)[1]
    found = graph.constant(said) if said else np.array(attribute(node, "axes", []))
    return [] if found is None else [int(each) for each in found.reshape(-1)]


def at_unit_length(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether a value is divided by its length."""
    floor = graph.maker(node.input[1], "Max") if node.op_type == "Div" else None
    root = None if floor is None else graph.maker(floor.input[0], "Sqrt")
    total = None if root is None else graph.maker(root.input[0], "ReduceSum")
    squares = None if total is None else graph.maker(total.input[0], "Mul")
    return (
        floor is not None
        and squares is not None
        and [*squares.input] == [node.input[0]] * 2
        and graph.number(floor.input[1]) < SMALLEST
    )


@dataclass(frozen=True, kw_only=True)
class Altered:
    """A function of each number of a value."""

    function: Function
    source: str
    parameters: tuple[float, ...] = ()


def altered(graph: Graph, node: onnx.NodeProto) -> Altered | None:
    """The function of each number that a node is; none where it is no such function."""

    def one(function: Function, *parameters: float) -> Altered:
        return Altered(function=function, source=node.input[0], parameters=parameters)

    def said(name: str, otherwise: float) -> float:
        return float(attribute(node, name, otherwise))

    if node.op_type in ("Add", "Mul", "Sub", "Div"):
        constant = graph.constant(node.input[1])
        if constant is None or constant.size != 1:
            return None
        number = float(constant.item())
        by = {"Add": number, "Sub": -number, "Mul": number, "Div": 1 / number if number else 0.0}
        scales = node.op_type in ("Mul", "Div")
        return one(Function.SCALED if scales else Function.RAISED, by[node.op_type])
    if node.op_type == "Gelu" and attribute(node, "approximate", b"none") != b"none":
        return None
    kinds = {
        "Relu": lambda: one(Function.CLIPPED, 0.0, MOST),
        "Clip": lambda: one(Function.CLIPPED, *map(graph.number, node.input[1:3])),
        "LeakyRelu": lambda: one(Function.LEAKY, said("alpha", 0.01)),
        "Shrink": lambda: one(Function.SHRUNK, said("lambd", 0.5), said("bias", 0.0)),
        "HardSigmoid": lambda: one(Function.HARD_SIGMOID, said("alpha", 0.2), said("beta", 0.5)),
        "Tanh": lambda: one(Function.TANH),
        "Sigmoid": lambda: one(Function.SIGMOID),
        "Gelu": lambda: one(Function.EXACT_GELU),
        "Elu": lambda: one(Function.ELU, said("alpha", 1.0), 1.0),
        "Selu": lambda: one(Function.ELU, said("alpha", 1.6732632), said("gamma", 1.0507010)),
        "Softplus": lambda: one(Function.SOFTPLUS),
        "Softsign": lambda: one(Function.SOFTSIGN),
        "Neg": lambda: one(Function.SCALED, -1.0),
        "Log": lambda: one(Function.LOG),
    }
    return kinds[node.op_type]() if node.op_type in kinds else None
