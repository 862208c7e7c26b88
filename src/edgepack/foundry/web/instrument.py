"""A module that notes which of its functions are entered: one bit each, in globals that are exported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from edgepack.foundry.web.binary import (
    CODE,
    CUSTOM,
    DATA,
    ELEMENT,
    EXPORT,
    FUNCTION,
    GLOBAL,
    IMPORT,
    MEMORY,
    START,
    TABLE,
    TYPE,
    Reader,
    Section,
    WasmError,
    assemble,
    bodies,
    code_section,
    imports,
    s32,
    section,
    sections,
    u32,
)

PREFIX = "edgepack_entered_"
"""What the exported globals' names begin with; a number follows."""
BITS = 64
_TAG, _DATA_COUNT = 13, 12
_ORDER = (
    TYPE,
    IMPORT,
    FUNCTION,
    TABLE,
    MEMORY,
    _TAG,
    GLOBAL,
    EXPORT,
    START,
    ELEMENT,
    _DATA_COUNT,
    CODE,
    DATA,
)
_I64, _MUTABLE, _GLOBAL_KIND = 0x7E, 1, 3
_GLOBAL_GET, _GLOBAL_SET, _I64_CONST, _I64_OR, _END = 0x23, 0x24, 0x42, 0x84, 0x0B
_VALUE_TYPES = frozenset((0x7F, 0x7E, 0x7D, 0x7C, 0x7B, 0x70, 0x6F))


def instrument(module: bytes) -> bytes:
    """The module with a mark at the beginning of each of its own functions. Raises ``WasmError``.

    Bit ``n % 64`` of the exported global ``edgepack_entered_{n // 64}`` is set once function ``n`` has been entered,
    counted without the imported ones. Nothing that was there gets another index.
    """
    parts = sections(module)
    code = bodies(parts)
    count = (len(code) + BITS - 1) // BITS
    first = sum(1 for each in imports(parts) if each.kind == _GLOBAL_KIND) + _length(parts, GLOBAL)
    globals_ = bytes([_I64, _MUTABLE, _I64_CONST, 0, _END]) * count
    exports = b"".join(
        _name(f"{PREFIX}{number}") + bytes([_GLOBAL_KIND]) + u32(first + number) for number in range(count)
    )
    parts = _extended(parts, GLOBAL, count, globals_)
    parts = _extended(parts, EXPORT, count, exports)
    marked = code_section([_marked(body, number, first) for number, body in enumerate(code)])
    return assemble([marked if part.id == CODE else part for part in parts])


def entered(words: Mapping[int, int]) -> frozenset[int]:
    """The functions whose bits are set, from the globals' numbers and values."""
    return frozenset(
        number * BITS + bit for number, value in words.items() for bit in range(BITS) if value >> bit & 1
    )


def union_of(profiles: Iterable[frozenset[int]]) -> frozenset[int]:
    """What was entered in any of the runs."""
    return frozenset().union(*profiles)


def _marked(body: bytes, number: int, first: int) -> bytes:
    start = _after_locals(body)
    index = u32(first + number // BITS)
    mask = 1 << number % BITS
    # The constant is signed.
    constant = s32(mask - (1 << BITS) if mask >> (BITS - 1) else mask)
    mark = (
        bytes([_GLOBAL_GET]) + index + bytes([_I64_CONST]) + constant + bytes([_I64_OR, _GLOBAL_SET]) + index
    )
    return body[:start] + mark + body[start:]


def _after_locals(body: bytes) -> int:
    reader = Reader(body)
    for _ in range(reader.u32()):
        reader.u32()
        if (kind := reader.byte()) not in _VALUE_TYPES:
            raise WasmError(f"a local variable of a type that is not known, {kind:#x}")
    return reader.position


def _length(parts: Sequence[Section], id: int) -> int:
    found = section(parts, id)
    return 0 if found is None else Reader(found.content).u32()


def _extended(parts: Sequence[Section], id: int, count: int, content: bytes) -> list[Section]:
    """The sections with more entries at the end of one, which is put in its place where there is none."""
    found = section(parts, id)
    if found is not None:
        reader = Reader(found.content)
        total = reader.u32() + count
        longer = Section(id=id, content=u32(total) + found.content[reader.position :] + content)
        return [longer if part is found else part for part in parts]
    place = next(
        (
            position
            for position, part in enumerate(parts)
            if part.id != CUSTOM and _ORDER.index(part.id) > _ORDER.index(id)
        ),
        len(parts),
    )
    return [*parts[:place], Section(id=id, content=u32(count) + content), *parts[place:]]


def _name(text: str) -> bytes:
    return u32(len(text)) + text.encode()
