"""The same model, the same bytes: an ORT format file with its kernel types in a fixed order.

The converter writes down which types each kernel is chosen by from a hash map whose order is another in every process
(``KernelTypeStrResolver::SaveToOrtFormat``). That table is written last, and FlatBuffers are written from their end to
their beginning: it lies in front of the model, and nothing in the model points at it. So the front of the file is written
anew, sorted, and the model's bytes stay as they are. The field numbers are those of ``core/flatbuffers/schema/ort.fbs``.
"""

import struct
from pathlib import Path
from typing import Any, NamedTuple

from edgepack.errors import ModelError
from edgepack.models.ort.flat import number, root, table, tables, target, text

IDENTIFIER = b"ORTM"
ALIGNMENT = 64
"""Wider than anything in the file is aligned to; FlatBuffers align from the end, so that the whole must be a multiple."""

# Places of fields in a vtable; the third of a session is deprecated.
FIRST, SECOND, FOURTH = 4, 6, 10


class KernelArgument(NamedTuple):
    """An input (0) or output (1) of an operator that a kernel is chosen by."""

    direction: int
    position: int


Kernels = dict[str, dict[str, list[KernelArgument]]]
"""Operator, e.g. ``:Add:14`` → name of a type constraint → the arguments that it is about."""


def make_canonical(path: Path) -> None:
    """Rewrite an ORT format file so that it depends on nothing but the model. Raises ``ModelError``."""
    settled = canonical_ort(path.read_bytes())
    path.write_bytes(settled)


def canonical_ort(content: bytes) -> bytes:
    """The content of an ORT format file with its kernel types sorted, and nothing else changed."""
    if content[4:8] != IDENTIFIER:
        raise ModelError("what ONNX Runtime wrote is not an ORT format file")
    session = root(content)
    version, model, resolver = (target(session, field) for field in (FIRST, SECOND, FOURTH))
    model_start = min(model, model - struct.unpack_from("<i", content, model)[0])
    head, places = _write_head(read_kernels(content, resolver))
    padding = -(len(head) + len(content) - model_start) % ALIGNMENT
    front = bytearray(head + bytes(padding))
    for place, goal in zip(places, (version, model), strict=True):
        struct.pack_into("<I", front, place, goal - model_start + len(front) - place)
    return bytes(front) + content[model_start:]


def read_kernels(content: bytes, resolver: int | None = None) -> Kernels:
    """Kernels' types that a file states; ``resolver`` is where its table lies, when that is known."""
    found = table(content, target(root(content), FOURTH) if resolver is None else resolver)
    return {
        text(operator, FIRST): {
            text(constraint, FIRST): [
                KernelArgument(number(argument, FIRST, "<b"), number(argument, SECOND, "<I"))
                for argument in tables(constraint, SECOND)
            ]
            for constraint in tables(operator, SECOND)
        }
        for operator in tables(found, FIRST)
    }


def _write_head(kernels: Kernels) -> tuple[bytes, tuple[int, int]]:
    """A file with kernel types and no model; the places where it says how far off version and model are."""
    import flatbuffers  # type: ignore[import-untyped]

    builder = flatbuffers.Builder(4096)
    operators = [
        _pair(
            builder,
            name,
            [
                _pair(builder, constraint, [_argument(builder, each) for each in arguments])
                for constraint, arguments in sorted(constraints.items())
            ],
        )
        for name, constraints in sorted(kernels.items())
    ]
    entries = _vector(builder, operators)
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, entries, 0)
    resolver = builder.EndObject()
    builder.StartObject(4)
    unknown = 1  # any number but the default, which would not be written down
    builder.PrependUint32Slot(0, unknown, 0)
    builder.PrependUint32Slot(1, unknown, 0)
    builder.PrependUOffsetTRelativeSlot(3, resolver, 0)
    builder.Finish(builder.EndObject(), file_identifier=IDENTIFIER)
    head = bytes(builder.Output())
    session = root(head)
    return head, (session.Pos + session.Offset(FIRST), session.Pos + session.Offset(SECOND))


def _argument(builder: Any, argument: KernelArgument) -> int:
    builder.StartObject(2)
    builder.PrependInt8Slot(0, argument.direction, 0)
    builder.PrependUint32Slot(1, argument.position, 0)
    return int(builder.EndObject())


def _pair(builder: Any, name: str, tables: list[int]) -> int:
    """A table of a name and a vector of tables."""
    called, vector = builder.CreateString(name), _vector(builder, tables)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, called, 0)
    builder.PrependUOffsetTRelativeSlot(1, vector, 0)
    return int(builder.EndObject())


def _vector(builder: Any, tables: list[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for each in reversed(tables):
        builder.PrependUOffsetTRelative(each)
    return int(builder.EndVector())
