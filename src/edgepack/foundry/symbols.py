"""Symbols of object files, and the floor that a finished library must keep to."""

import struct
from dataclasses import dataclass
from pathlib import Path

from edgepack.errors import FloorError
from edgepack.files.elf import glibc_floor, is_system_library, needed_libraries, version_key
from edgepack.files.elf_reader import (
    SHT_DYNSYM,
    SHT_SYMTAB,
    STB_GNU_UNIQUE,
    STB_WEAK,
    UNDEFINED,
    ElfError,
    read_elf,
)


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """The global symbols of an object file, by name."""

    defines: frozenset[str]
    weak: frozenset[str]
    """Defined, but also elsewhere: inline functions and template instances."""
    needs: frozenset[str]


def symbols(path: Path, *, dynamic: bool = False) -> Symbols:
    """The symbols of an object, or with ``dynamic`` those that a shared library offers.

    Raises ``ValueError`` for anything else.
    """
    defines: set[str] = set()
    weak: set[str] = set()
    needs: set[str] = set()
    try:
        file = read_elf(path.read_bytes())
        for name, info, section in file.symbols(SHT_DYNSYM if dynamic else SHT_SYMTAB, local=False):
            if section == UNDEFINED:
                if info >> 4 != STB_WEAK:
                    needs.add(name)
            elif info >> 4 in (STB_WEAK, STB_GNU_UNIQUE):
                weak.add(name)
            else:
                defines.add(name)
    except ElfError as error:
        raise ValueError(f"{path} is not a valid ELF file: {error}") from error
    return Symbols(defines=frozenset(defines), weak=frozenset(weak), needs=frozenset(needs))


def archive_symbols(path: Path) -> frozenset[str]:
    """Symbols that the members of a static library define: the names in its index. Raises ``ValueError``."""
    data = path.read_bytes()
    if data[:8] != b"!<arch>\n":
        raise ValueError(f"{path} is not a static library")
    if data[8:24].rstrip() != b"/":
        return frozenset()
    content = data[68 : 68 + int(data[56:66])]
    (count,) = struct.unpack_from(">I", content)
    return frozenset(name.decode() for name in content[4 + 4 * count :].split(b"\0") if name)


def check_floor(library: Path, glibc: str | None) -> None:
    """Raises ``FloorError`` when the library needs more than a device with this glibc, or without any, has."""
    strangers = [name for name in needed_libraries(library) if not is_system_library(name)]
    if strangers:
        raise FloorError(
            f"{library.name} needs {', '.join(strangers)}, which a device need not have",
            hint="use the zig toolchain, which puts the C++ runtime into the library",
        )
    newest = glibc_floor(library)
    if newest is not None and (glibc is None or version_key(newest) > version_key(glibc)):
        raise FloorError(
            f"{library.name} needs glibc {newest}; the target has {glibc or 'none'}",
            hint="use the zig toolchain (it builds for any glibc), or raise the target's glibc",
        )
