"""What a program for Windows imports, read from the finished file, and the limit of it."""

import struct
from collections.abc import Iterator, Mapping

from edgepack.api import BundleError

ALLOWED = frozenset({"kernel32.dll", "api-ms-win-core-synch-l1-2-0.dll"})
"""Libraries of every Windows from 8 on: the second is a name for what kernel32's own library has to wait by."""
IMPORT, CERTIFICATES = 1, 4
"""Places in the table of directories."""


def imports_of(program: bytes) -> Mapping[str, tuple[str, ...]]:
    """Library → functions, in the program's order. Raises ``ValueError`` for what is no program for Windows of 64 bits."""
    try:
        return dict(_imports(program))
    except (struct.error, IndexError) as error:
        raise ValueError(f"not a whole program for Windows: {error}") from error


def _imports(program: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    (header,) = struct.unpack_from("<I", program, 0x3C)
    if program[:2] != b"MZ" or program[header : header + 4] != b"PE\0\0":
        raise ValueError("not a program for Windows")
    sections, optional = struct.unpack_from("<H12xH", program, header + 6)
    start = header + 24
    if struct.unpack_from("<H", program, start)[0] != 0x20B:
        raise ValueError("not a program of 64 bits")
    (table,) = struct.unpack_from("<I", program, start + 112 + 8 * IMPORT)
    table_of = program[start + optional : start + optional + 40 * sections]
    rows = [tuple(map(int, row)) for row in struct.iter_unpack("<8xIIII16x", table_of)]

    def at(address: int) -> int:
        for size, place, in_file, offset in rows:
            if place <= address < place + max(size, in_file):
                return offset + address - place
        raise ValueError(f"address {address:#x} is in no section")

    def text(address: int) -> str:
        place = at(address)
        return program[place : program.index(0, place)].decode("ascii")

    row = at(table)
    while any(found := struct.unpack_from("<IIIII", program, row)):
        names, entry = [], at(found[0] or found[4])
        while value := struct.unpack_from("<Q", program, entry)[0]:
            names.append(f"#{value & 0xFFFF}" if value >> 63 else text(value + 2))
            entry += 8
        yield text(found[3]), tuple(names)
        row += 20


def is_signed(program: bytes) -> bool:
    """Whether an Authenticode signature lies in a program, whoever it is of."""
    (header,) = struct.unpack_from("<I", program, 0x3C)
    return any(struct.unpack_from("<II", program, header + 24 + 112 + 8 * CERTIFICATES))


def require_imports(program: bytes, *, name: str) -> None:
    """Raise ``BundleError`` for a program that imports from other libraries than every Windows has."""
    others = sorted(set(map(str.lower, imports_of(program))) - ALLOWED)
    if others:
        raise BundleError(
            f"{name} would need {', '.join(others)} of its device", hint="this is a bug in edgepack"
        )
