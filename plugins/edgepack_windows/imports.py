"""What a program or a library for Windows imports and exports, read from the finished file, and the limit of it."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgepack.api import BundleError

ALLOWED = frozenset({"kernel32.dll", "api-ms-win-core-synch-l1-2-0.dll"})
"""Libraries of every Windows from 8 on: the second is a name for what kernel32's own library has to wait by."""
SOCKETS = "ws2_32.dll"
"""What a program with a server needs besides, of every Windows too."""
EXPORT, IMPORT, CERTIFICATES = 0, 1, 4
"""Places in the table of directories."""
MOST = 4096
"""Functions that a file may name: a stranger's tables may lead to one another, for as long as one likes to read."""
LONGEST = 256
"""Bytes of a name."""
MOST_SECTIONS = 96
"""Windows loads no file with more."""


def imports_of(program: bytes) -> Mapping[str, tuple[str, ...]]:
    """Library → functions, in the program's order. Raises ``ValueError`` for what is no program for Windows of 64 bits."""
    try:
        return dict(_read(program).imports())
    except (struct.error, IndexError) as error:
        raise ValueError(f"not a whole program for Windows: {error}") from error


def exports_of(library: bytes) -> tuple[str, ...]:
    """Names of functions, sorted. Raises ``ValueError`` as above."""
    try:
        return tuple(_read(library).exports())
    except (struct.error, IndexError) as error:
        raise ValueError(f"not a whole library for Windows: {error}") from error


def _read(content: bytes) -> "_File":
    (header,) = struct.unpack_from("<I", content, 0x3C)
    if content[:2] != b"MZ" or content[header : header + 4] != b"PE\0\0":
        raise ValueError("not a program for Windows")
    sections, optional = struct.unpack_from("<H12xH", content, header + 6)
    start = header + 24
    if sections > MOST_SECTIONS:
        raise ValueError(f"{sections} sections, of which Windows loads {MOST_SECTIONS}")
    if struct.unpack_from("<H", content, start)[0] != 0x20B:
        raise ValueError("not a program of 64 bits")
    table_of = content[start + optional : start + optional + 40 * sections]
    rows = [tuple(map(int, row)) for row in struct.iter_unpack("<8xIIII16x", table_of)]
    return _File(content=content, start=start, rows=rows)


@dataclass(frozen=True, kw_only=True)
class _File:
    """A file for Windows, whose addresses are found by its sections."""

    content: bytes
    start: int
    """Of the optional header."""
    rows: Sequence[tuple[int, ...]]
    """Of each section: size, address, size in the file, place in the file."""

    def table(self, directory: int) -> int:
        """Address of one; 0 where there is none."""
        return int(struct.unpack_from("<I", self.content, self.start + 112 + 8 * directory)[0])

    def at(self, address: int) -> int:
        for size, place, in_file, offset in self.rows:
            if place <= address < place + max(size, in_file):
                return offset + address - place
        raise ValueError(f"address {address:#x} is in no section")

    def text(self, address: int) -> str:
        place = self.at(address)
        found = self.content[place : self.content.index(0, place, place + LONGEST)].decode("ascii")
        if not found.isprintable():
            raise ValueError(f"{found!r} is no name")
        return found

    def imports(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        left, row = MOST, self.at(self.table(IMPORT))
        while any(found := struct.unpack_from("<IIIII", self.content, row)):
            names, entry = [], self.at(found[0] or found[4])
            while value := struct.unpack_from("<Q", self.content, entry)[0]:
                left -= 1
                if left < 0:
                    raise ValueError(f"it imports more than {MOST} functions")
                names.append(f"#{value & 0xFFFF}" if value >> 63 else self.text(value + 2))
                entry += 8
            yield self.text(found[3]), tuple(names)
            row += 20

    def exports(self) -> Iterator[str]:
        if not (table := self.table(EXPORT)):
            return
        count, _, names = struct.unpack_from("<III", self.content, self.at(table) + 24)
        if count > MOST:
            raise ValueError(f"it exports more than {MOST} functions")
        for place in struct.iter_unpack("<I", self.content[self.at(names) :][: 4 * count]):
            yield self.text(*place)


def is_signed(program: bytes) -> bool:
    """Whether an Authenticode signature lies in a program, whoever it is of. Raises ``ValueError`` as above."""
    try:
        return any(struct.unpack_from("<II", program, _read(program).start + 112 + 8 * CERTIFICATES))
    except struct.error as error:
        raise ValueError(f"not a whole program for Windows: {error}") from error


def require_imports(program: bytes, *, name: str, serves: bool = False) -> None:
    """Raise ``BundleError`` for a program that imports from other libraries than every Windows has, or from sockets without a server."""
    allowed = ALLOWED | {SOCKETS} if serves else ALLOWED
    others = sorted(set(map(str.lower, imports_of(program))) - allowed)
    if others:
        raise BundleError(
            f"{name} would need {', '.join(others)} of its device", hint="this is a bug in edgepack"
        )
