"""Rotary positions, and the window of tokens that local attention looks at: parts of encoders without a table of positions.

The nodes stand as ``edgepack.models.fuse.attention`` looks for them, which makes RotaryEmbedding and MultiHeadAttention of them.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.graph.writer import GraphWriter
from edgepack.models.read.documents import EDITED
from edgepack.models.read.safetensors import Array

FAR = -1e4
"""Added to the score of a token outside of the window: e to its power is 0, and with what hides padding it stays finite."""


def count_places(writer: GraphWriter) -> str:
    """float32 [sequence, 1]: 0, 1, 2, … as the text is long."""
    size = writer.add("Shape", "sequence.shape", "input_ids")
    length = writer.add("Gather", "sequence.length", size, writer.index(1), axis=0)
    places = writer.add("Range", "rotary.places", writer.index(0), length, writer.index(1))
    numbers = writer.add("Cast", "rotary.numbers", places, to=TensorProto.FLOAT)
    return writer.add("Unsqueeze", "rotary.column", numbers, writer.ints(1))


def rotary_frequencies(base: float, head: int) -> Array:
    """How far each pair of a head's numbers is turned from one place to the next, in radians; float32 [head / 2]."""
    if head % 2:
        raise ModelError(f"config.json: heads of {head} numbers cannot be rotated in pairs", hint=EDITED)
    exponents = np.arange(0, head, 2, dtype=np.float32) / np.float32(head)
    # Not NumPy's power: with AVX-512 its last bit is another.
    powers = np.array([math.pow(float(np.float32(base)), each) for each in exponents.tolist()], np.float32)
    frequencies: Array = np.float32(1) / powers
    return frequencies


def rotary_angles(
    writer: GraphWriter, places: str, frequencies: Array, *, part: str = "rotary."
) -> tuple[str, str]:
    """Cosine and sine, float32 [sequence, head / 2] each, worked out as the text is long: no table to carry."""
    angles = writer.add(
        "Mul", f"{part}angles", places, writer.weight(f"{part}frequencies", frequencies[None])
    )
    return writer.add("Cos", f"{part}cosine", angles), writer.add("Sin", f"{part}sine", angles)


def rotated(writer: GraphWriter, name: str, vector: str, angles: tuple[str, str], head: int) -> str:
    """[batch, heads, sequence, head], each half turned against the other by the angle of its place."""
    half = head // 2
    cosine, sine = angles
    first = writer.add("Slice", f"{name}.first", vector, writer.ints(0), writer.ints(half), writer.ints(3))
    second = writer.add(
        "Slice", f"{name}.second", vector, writer.ints(half), writer.ints(head), writer.ints(3)
    )

    def product(half_name: str, half_vector: str, factor: str, kind: str) -> str:
        return writer.add("Mul", f"{name}.{half_name}_{kind}", half_vector, factor)

    left = writer.add(
        "Sub",
        f"{name}.left",
        product("first", first, cosine, "cosine"),
        product("second", second, sine, "sine"),
    )
    right = writer.add(
        "Add",
        f"{name}.right",
        product("second", second, cosine, "cosine"),
        product("first", first, sine, "sine"),
    )
    return writer.add("Concat", f"{name}.rotated", left, right, axis=-1)


def rotary_base(parameters: Mapping[str, Any] | None, default: float) -> float:
    """The base of the frequencies, of one entry of ``rope_parameters``. Raises ``UnsupportedModelError`` for scaled ones."""
    said = parameters or {}
    kind = said.get("rope_type", said.get("type", "default"))
    if kind != "default":
        raise UnsupportedModelError(
            f"config.json requires rotary positions of type {kind!r}; edgepack writes those that are not scaled",
            hint="export the model to ONNX yourself and use the .onnx file",
        )
    base = said.get("rope_theta", default)
    if isinstance(base, bool) or not isinstance(base, int | float) or base <= 0:
        raise ModelError(f"config.json: rope_theta is {base!r}, expected a positive number", hint=EDITED)
    return float(base)


def causal_order(writer: GraphWriter, places: str) -> str:
    """float32 [1, 1, sequence, sequence]: 0 for a token and those before it, ``FAR`` for those after."""
    row = writer.add("Transpose", "causal.row", places, perm=[1, 0])
    later = writer.add("Greater", "causal.later", row, places)
    return _added(writer, "causal.", later)


def local_window(writer: GraphWriter, places: str, reach: int) -> str:
    """float32 [1, 1, sequence, sequence]: 0 for pairs of tokens at most ``reach`` places apart, ``FAR`` for others."""
    row = writer.add("Transpose", "window.row", places, perm=[1, 0])
    apart = writer.add("Abs", "window.apart", writer.add("Sub", "window.differences", places, row))
    outside = writer.add("Greater", "window.outside", apart, writer.scalar("window.reach", float(reach)))
    return _added(writer, "window.", outside)


def _added(writer: GraphWriter, part: str, hidden: str) -> str:
    numbers = writer.add("Cast", f"{part}numbers", hidden, to=TensorProto.FLOAT)
    added = writer.add("Mul", f"{part}pairs", numbers, writer.scalar("window.far", FAR))
    return writer.add("Unsqueeze", f"{part}bias", added, writer.ints(0, 1))
