"""The forms that a vector's numbers can have.

========  ==============================  ==========================================================
``f32``   float32, little-endian          as the model gives them
``f16``   float16, little-endian          rounded to the nearest, ties to even
``int8``  signed bytes                    ``round(x * (127 / m))``, ties to even, in double precision, where ``m`` is the
                                          vector's largest magnitude: ``x`` is about ``code * m / 127``
``binary``  a bit a number, 8 in a byte   1 where ``x > 0``; the first number is the highest bit of the first byte (the
                                          order of ``numpy.packbits``), and bits beyond the last number are 0
========  ==============================  ==========================================================

The cosine of two int8 vectors needs no scale. Of JSON, int8 carries it as ``"scale"``: ``m / 127``.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

from ..base.errors import UsageError

TYPES = ("f32", "f16", "int8", "binary")
DESCRIPTIONS = {"f32": "<f4", "f16": "<f2", "int8": "|i1", "binary": "|u1"}
"""NumPy's names."""
STEPS = 127


def width(type: str, dimension: int) -> int:
    """Numbers that a row of this type has: bytes, where they are bits."""
    return (dimension + 7) // 8 if type == "binary" else dimension


def packed(vector: array[float], type: str) -> bytes:
    """A vector, float32 [dimension], as the bytes of its type."""
    if type == "f16":
        return halves(vector)
    if type == "int8":
        return array("b", codes(vector)[0]).tobytes()
    if type == "binary":
        return bits(vector)
    return little_endian(vector)


def little_endian(vector: array[float]) -> bytes:
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector.tobytes()


def halves(vector: Sequence[float]) -> bytes:
    """float16. Raises ``UsageError`` for a number that is too large for it."""
    from struct import pack

    try:
        return pack(f"<{len(vector)}e", *vector)
    except OverflowError as error:
        raise UsageError("this model's numbers are too large for f16", "use --dtype f32 or int8") from error


def codes(vector: Sequence[float]) -> tuple[list[int], float]:
    """int8 codes and their scale; a vector of zeros has the scale 0."""
    largest = max(map(abs, vector), default=0.0)
    if not largest:
        return [0] * len(vector), 0.0
    factor = STEPS / largest
    return [round(x * factor) for x in vector], largest / STEPS


def bits(vector: Sequence[float]) -> bytes:
    digits = "".join(["1" if x > 0 else "0" for x in vector])
    size = width("binary", len(vector))
    return int(digits.ljust(size * 8, "0") or "0", 2).to_bytes(size, "big")


def json_fields(vector: array[float], type: str) -> str:
    """``"embedding":[…]``, and the scale where there is one.

    Nine digits bring every float32 back exactly, five every float16.
    """
    if type == "f32":
        return f'"embedding":{digits_of(vector, "%.9g")}'
    if type == "f16":
        from struct import unpack

        return f'"embedding":{digits_of(unpack(f"<{len(vector)}e", halves(vector)), "%.5g")}'
    if type == "int8":
        numbers, scale = codes(vector)
        return f'"embedding":{digits_of(numbers, "%d")},"scale":{scale:.9g}'
    return f'"embedding":{digits_of(list(bits(vector)), "%d")}'


def digits_of(numbers: Sequence[float], form: str) -> str:
    return "[" + ",".join([form] * len(numbers)) % tuple(numbers) + "]"
