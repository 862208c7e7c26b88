"""The activations of Dense modules: those of torch.nn that can be made without arguments, as ONNX nodes of opset 17.

sentence-transformers saves an activation by its class alone and makes it anew, so that each has PyTorch's default numbers.
"""

from collections.abc import Callable, Mapping
from functools import partial

from edgepack.models.graph.activations import activate
from edgepack.models.graph.writer import GraphWriter
from edgepack.records.layers import DenseActivation

Activation = Callable[[GraphWriter, str, str], str]
"""``activation(writer, part, x)``: the value that it makes of ``x``; its nodes' names begin with ``part``."""
RANDOM_SLOPE = (1 / 8 + 1 / 3) / 2
"""Of RReLU where nothing is trained: the middle of its range."""


def _one(writer: GraphWriter, part: str, x: str, *, operator: str, **attributes: float) -> str:
    return writer.add(operator, f"{part}activated", x, **attributes)


def _clip(writer: GraphWriter, part: str, x: str, *, low: float, high: float) -> str:
    limits = writer.scalar(f"{part}low", low), writer.scalar(f"{part}high", high)
    return writer.add("Clip", f"{part}activated", x, *limits)


def _times(writer: GraphWriter, part: str, x: str, *, gate: Activation) -> str:
    """x · gate(x)."""
    return writer.add("Mul", f"{part}gated", x, gate(writer, part, x))


def _gelu(writer: GraphWriter, part: str, x: str) -> str:
    return activate(writer, "gelu", part, x)


def _mish(writer: GraphWriter, part: str, x: str) -> str:
    """x · tanh(softplus(x))."""
    soft = writer.add("Softplus", f"{part}softplus", x)
    return writer.add("Mul", f"{part}activated", x, writer.add("Tanh", f"{part}tanh", soft))


def _log_sigmoid(writer: GraphWriter, part: str, x: str) -> str:
    """-softplus(-x)."""
    soft = writer.add("Softplus", f"{part}softplus", writer.add("Neg", f"{part}negative", x))
    return writer.add("Neg", f"{part}activated", soft)


def _tanh_shrink(writer: GraphWriter, part: str, x: str) -> str:
    return writer.add("Sub", f"{part}activated", x, writer.add("Tanh", f"{part}tanh", x))


def _soft_min(writer: GraphWriter, part: str, x: str) -> str:
    return writer.add("Softmax", f"{part}activated", writer.add("Neg", f"{part}negative", x), axis=-1)


_HARD_SIGMOID = partial(_one, operator="HardSigmoid", alpha=1 / 6, beta=0.5)
DENSE_ACTIVATIONS: Mapping[DenseActivation, Activation] = {
    "Tanh": partial(_one, operator="Tanh"),
    "Relu": partial(_one, operator="Relu"),
    "Sigmoid": partial(_one, operator="Sigmoid"),
    "Gelu": _gelu,
    "CELU": partial(_one, operator="Elu", alpha=1.0),
    "ELU": partial(_one, operator="Elu", alpha=1.0),
    "Hardshrink": partial(_one, operator="Shrink", lambd=0.5, bias=0.0),
    "Hardsigmoid": _HARD_SIGMOID,
    "Hardswish": partial(_times, gate=_HARD_SIGMOID),
    "Hardtanh": partial(_clip, low=-1.0, high=1.0),
    "LeakyReLU": partial(_one, operator="LeakyRelu", alpha=0.01),
    "LogSigmoid": _log_sigmoid,
    "LogSoftmax": partial(_one, operator="LogSoftmax", axis=-1),
    "Mish": _mish,
    "ReLU6": partial(_clip, low=0.0, high=6.0),
    "RReLU": partial(_one, operator="LeakyRelu", alpha=RANDOM_SLOPE),
    "SELU": partial(_one, operator="Selu"),
    "SiLU": partial(_times, gate=partial(_one, operator="Sigmoid")),
    "Softmax": partial(_one, operator="Softmax", axis=-1),
    "Softmin": _soft_min,
    "Softplus": partial(_one, operator="Softplus"),
    "Softshrink": partial(_one, operator="Shrink", lambd=0.5, bias=0.5),
    "Softsign": partial(_one, operator="Softsign"),
    "Tanhshrink": _tanh_shrink,
}
"""How each is written."""
