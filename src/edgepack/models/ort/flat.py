"""Fields of FlatBuffers tables, read by their places in the vtable: what ORT format files consist of.

A field's place is 4 and two for each field before it, as ``core/flatbuffers/schema/ort.fbs`` numbers them.
"""

import struct
from typing import Any

from edgepack.errors import ModelError


def root(content: Any) -> Any:
    """The table that everything else hangs on."""
    return table(content, struct.unpack_from("<I", content)[0])


def table(content: Any, position: int) -> Any:
    """The table at a place in the file."""
    from flatbuffers.table import Table  # type: ignore[import-untyped]

    return Table(content, position)


def target(within: Any, field: int) -> int:
    """Place that a field points at. Raises ``ModelError`` where it points at nothing."""
    offset = within.Offset(field)
    if offset == 0:
        raise ModelError("what ONNX Runtime wrote is not a whole ORT format file")
    return int(within.Indirect(within.Pos + offset))


def table_at(within: Any, field: int) -> Any:
    """The table that a field points at. Raises ``ModelError`` where there is none."""
    return table(within.Bytes, target(within, field))


def text(within: Any, field: int) -> str:
    return str(within.String(within.Pos + within.Offset(field)), "utf-8")


def number(within: Any, field: int, form: str) -> int:
    """A number of the form that ``struct`` calls so; 0 where the file leaves it out."""
    offset = within.Offset(field)
    return int(struct.unpack_from(form, within.Bytes, within.Pos + offset)[0]) if offset else 0


def tables(within: Any, field: int) -> list[Any]:
    offset = within.Offset(field)
    if offset == 0:
        return []
    start = within.Vector(offset)
    return [
        table(within.Bytes, within.Indirect(start + 4 * index)) for index in range(within.VectorLen(offset))
    ]


def vector_length(within: Any, field: int) -> int:
    """How many elements a vector has."""
    offset = within.Offset(field)
    return int(within.VectorLen(offset)) if offset else 0


def integers(within: Any, field: int) -> tuple[int, ...]:
    """A vector of 64-bit integers."""
    count = vector_length(within, field)
    start = within.Vector(within.Offset(field)) if count else 0
    return struct.unpack_from(f"<{count}q", within.Bytes, start)
