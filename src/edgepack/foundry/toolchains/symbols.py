"""Symbols of object files, and the floor that a finished library must keep to."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from edgepack.errors import FloorError
from edgepack.files.elf import SYSTEM_LIBRARIES, glibc_floor, needed_libraries, version_key

_SYMTAB, _DYNSYM = 2, 11
_LOCAL, _WEAK, _GNU_UNIQUE = 0, 2, 10


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """The global symbols of an object file, by name."""

    defines: frozenset[str]
    weak: frozenset[str]
    """Defined, but also elsewhere: inline functions and template instances."""
    needs: frozenset[str]


def symbols(path: Path, *, dynamic: bool = False) -> Symbols:
    """The symbols of a 64-bit little-endian object, or with ``dynamic`` those that a shared library offers.

    Raises ``ValueError`` for anything else.
    """
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
    try:
        return _symbols(data, _DYNSYM if dynamic else _SYMTAB)
    except (struct.error, IndexError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} is damaged") from error


def _symbols(data: bytes, kind: int) -> Symbols:
    (offset,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + size * index) for index in range(count)]
    defines: set[str] = set()
    weak: set[str] = set()
    needs: set[str] = set()
    for section in sections:
        if section[1] != kind:
            continue
        names = sections[section[6]][4]
        table = data[section[4] : section[4] + section[5]]
        for name, info, _, index, _, _ in struct.iter_unpack("<IBBHQQ", table):
            binding = info >> 4
            if binding == _LOCAL or not name:
                continue
            text = data[names + name : data.index(b"\0", names + name)].decode()
            if index == 0:
                if binding != _WEAK:
                    needs.add(text)
            elif binding in (_WEAK, _GNU_UNIQUE):
                weak.add(text)
            else:
                defines.add(text)
    return Symbols(defines=frozenset(defines), weak=frozenset(weak), needs=frozenset(needs))


def archive_symbols(path: Path) -> frozenset[str]:
    """What the members of a static library define: the names in its index. Raises ``ValueError``."""
    data = path.read_bytes()
    if data[:8] != b"!<arch>\n":
        raise ValueError(f"{path} is not a static library")
    if data[8:24].rstrip() != b"/":
        return frozenset()
    content = data[68 : 68 + int(data[56:66])]
    (count,) = struct.unpack_from(">I", content)
    return frozenset(name.decode() for name in content[4 + 4 * count :].split(b"\0") if name)


def check_floor(library: Path, glibc: str) -> None:
    """Raises ``FloorError`` when the library needs more than a device with this glibc has."""
    strangers = [name for name in needed_libraries(library) if name not in SYSTEM_LIBRARIES]
    if strangers:
        raise FloorError(
            f"{library.name} needs {', '.join(strangers)}, which a device need not have",
            hint="use the zig toolchain, which puts the C++ runtime into the library",
        )
    newest = glibc_floor(library)
    if newest is not None and version_key(newest) > version_key(glibc):
        raise FloorError(
            f"{library.name} needs glibc {newest}; the target has {glibc}",
            hint="use the zig toolchain (it builds for any glibc), or raise the target's glibc",
        )
