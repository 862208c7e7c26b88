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
from edgepack.operators.types import upstream

IDENTIFIER = b"ORTM"
ALIGNMENT = 64
"""Wider than anything in the file is aligned to; FlatBuffers align from the end, so that the whole must be a multiple."""

VERSION, MODEL, RESOLVER = 4, 6, 10
"""Places of a session's fields in its vtable."""


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
    session = session_in(content)._tab
    version, model = (_target(session, field) for field in (VERSION, MODEL))
    model_start = min(model, model - struct.unpack_from("<i", content, model)[0])
    head, places = _write_head(read_kernels(content))
    padding = -(len(head) + len(content) - model_start) % ALIGNMENT
    front = bytearray(head + bytes(padding))
    for place, goal in zip(places, (version, model), strict=True):
        struct.pack_into("<I", front, place, goal - model_start + len(front) - place)
    return bytes(front) + content[model_start:]


def session_in(content: Any) -> Any:
    """The table that all of an ORT format file hangs on, as ONNX Runtime's own bindings have it."""
    return upstream("ort_flatbuffers_py.fbs.InferenceSession").InferenceSession.GetRootAs(content, 0)


def elements(of: Any, vector: str) -> list[Any]:
    """The tables of a vector."""
    return [getattr(of, vector)(index) for index in range(getattr(of, f"{vector}Length")())]


def read_kernels(content: bytes) -> Kernels:
    """Kernels' types that a file states. Raises ``ModelError``."""
    session = session_in(content)
    _target(session._tab, RESOLVER)
    return {
        operator.OpId().decode(): {
            constraint.KernelTypeStr().decode(): [
                KernelArgument(argument.ArgType(), argument.Index())
                for argument in elements(constraint, "Args")
            ]
            for constraint in elements(operator, "KernelTypeStrArgs")
        }
        for operator in elements(session.KernelTypeStrResolver(), "OpKernelTypeStrArgs")
    }


def _target(within: Any, field: int) -> int:
    """Place that a field points at. Raises ``ModelError`` where it points at nothing."""
    offset = within.Offset(field)
    if offset == 0:
        raise ModelError("what ONNX Runtime wrote is not a whole ORT format file")
    return int(within.Indirect(within.Pos + offset))


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
    session = session_in(head)._tab
    return head, (session.Pos + session.Offset(VERSION), session.Pos + session.Offset(MODEL))


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
