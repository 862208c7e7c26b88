"""The activations of feed-forward parts, as ONNX nodes in the shapes that ONNX Runtime's fusions look for."""

import math

from edgepack.models.graph.writer import GraphWriter


def _gelu(writer: GraphWriter, part: str, x: str) -> str:
    """x · (1 + erf(x / √2)) / 2."""
    scaled = writer.add("Div", f"{part}gelu.scaled", x, writer.scalar("gelu.root_two", math.sqrt(2)))
    erf = writer.add("Erf", f"{part}gelu.erf", scaled)
    shifted = writer.add("Add", f"{part}gelu.shifted", erf, writer.scalar("gelu.one", 1.0))
    doubled = writer.add("Mul", f"{part}gelu.doubled", x, shifted)
    return writer.add("Mul", f"{part}gelu", doubled, writer.scalar("gelu.half", 0.5))


def _gelu_tanh(writer: GraphWriter, part: str, x: str) -> str:
    """x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2."""
    cube = writer.add("Pow", f"{part}gelu.cube", x, writer.scalar("gelu.three", 3.0))
    small = writer.add("Mul", f"{part}gelu.small", cube, writer.scalar("gelu.cubic", 0.044715))
    bent = writer.add("Add", f"{part}gelu.bent", x, small)
    scale = writer.scalar("gelu.root_two_over_pi", math.sqrt(2 / math.pi))
    scaled = writer.add("Mul", f"{part}gelu.scaled", bent, scale)
    tanh = writer.add("Tanh", f"{part}gelu.tanh", scaled)
    shifted = writer.add("Add", f"{part}gelu.shifted", tanh, writer.scalar("gelu.one", 1.0))
    halved = writer.add("Mul", f"{part}gelu.halved", x, writer.scalar("gelu.half", 0.5))
    return writer.add("Mul", f"{part}gelu", halved, shifted)


def _relu(writer: GraphWriter, part: str, x: str) -> str:
    return writer.add("Relu", f"{part}relu", x)


def activate(writer: GraphWriter, kind: str, part: str, vector: str) -> str:
    """An activation by its name in config.json, as ``activation_of`` checks it, in the nodes that the pass ``fuse`` takes for one.

    Any shape; the nodes' names begin with ``part``, e.g. ``encoder.layer.0.``.
    """
    return ACTIVATIONS[kind](writer, part, vector)


ACTIVATIONS = {
    "gelu": _gelu,
    "gelu_python": _gelu,
    "gelu_new": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": _relu,
}
