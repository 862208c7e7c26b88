"""What an ELF file leaves to whoever finds a way into its memory."""

import mmap
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

from edgepack.errors import BundleError
from edgepack.files.elf import sound_elf
from edgepack.files.elf_reader import DT_FLAGS_1, MACHINES, SHARED, Elf

BUILD_ID = "build-id"
"""The mark of a file that names itself; the others are ``shstk``, ``ibt``, ``bti`` and ``pac``, as the ABIs name them."""
PT_NOTE = 4
PT_GNU_STACK, PT_GNU_RELRO = 0x6474E551, 0x6474E552
PF_EXECUTE, PF_WRITE = 1, 2
DT_TEXTREL, DT_BIND_NOW, DT_FLAGS = 22, 24, 30
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW = 4, 8, 1
DT_RELA, DT_RELASZ = 7, 8
NT_GNU_BUILD_ID, NT_GNU_PROPERTY = 3, 5
SHA1 = 20
"""Bytes of a build ID."""
_PROPERTIES = {
    "x86_64": (0xC0000002, {1: "ibt", 2: "shstk"}),
    "aarch64": (0xC0000000, {1: "bti", 2: "pac"}),
}
"""Processor → the property of all code, and the mark of each of its bits."""
_RELATIVE = 1027
"""``R_AARCH64_RELATIVE``: an address within the file, e.g. of a function."""
_LANDINGS = frozenset({0xD503233F, 0xD503237F, 0xD503245F, 0xD50324DF})
"""``paciasp``, ``pacibsp``, ``bti c`` and ``bti jc``: where a call through an address may arrive."""


def weaknesses(path: Path) -> tuple[str, ...]:
    """Missing protections of a program or library, in words; empty for one that is hardened.

    Hardened: loaded anywhere, its tables of addresses read-only once it is loaded (full RELRO), no memory that is both written and
    run, a stack that is not run, code that is not written to when it is loaded. Raises ``BundleError``.
    """
    with sound_elf(path) as file:
        tags = dict(file.dynamic())
        kinds = {segment.kind: segment for segment in file.segments}
        loads = file.loads
        kind = file.header[1]
    at_once = DT_BIND_NOW in tags or tags.get(DT_FLAGS, 0) & DF_BIND_NOW or tags.get(DT_FLAGS_1, 0) & DF_1_NOW
    stack = kinds.get(PT_GNU_STACK)
    lacks = {
        "it is loaded at one place only (no PIE)": kind != SHARED,
        "its tables of addresses can be written (no RELRO)": bool(tags) and PT_GNU_RELRO not in kinds,
        "its functions are looked up while it runs (no -z now)": bool(tags) and not at_once,
        "its stack can be run": stack is None or bool(stack.flags & PF_EXECUTE),
        "some of its memory can be written and run": any(
            segment.flags & PF_EXECUTE and segment.flags & PF_WRITE for segment in loads
        ),
        "its code is written to when it is loaded (text relocations)": DT_TEXTREL in tags
        or bool(tags.get(DT_FLAGS, 0) & DF_TEXTREL),
    }
    return tuple(words for words, found in lacks.items() if found)


def marks_of(path: Path) -> frozenset[str]:
    """Marks of a file: what its notes say of it. Raises ``BundleError``."""
    with sound_elf(path) as file:
        return frozenset(_marks(file))


def _marks(file: Elf[mmap.mmap]) -> Iterator[str]:
    machine, _ = MACHINES.get(file.machine, ("", 0))
    wanted, names = _PROPERTIES.get(machine, (0, {}))
    for kind, content in _notes(file):
        if kind == NT_GNU_BUILD_ID and len(content) == SHA1:
            yield BUILD_ID
        for property_, bits in _pairs(content) if kind == NT_GNU_PROPERTY else ():
            if property_ == wanted:
                yield from (name for bit, name in names.items() if bits & bit)


def _notes(file: Elf[mmap.mmap]) -> Iterator[tuple[int, bytes]]:
    """Kind and content of GNU's notes."""
    for segment in file.segments:
        if segment.kind == PT_NOTE:
            step = 8 if segment.align == 8 else 4
            table, at = file.content[segment.offset : segment.offset + segment.in_file], 0
            while at + 12 <= len(table):
                name, size, kind = struct.unpack_from("<III", table, at)
                content = at + 12 + _up(name, 4)
                if table[at + 12 : at + 12 + name] == b"GNU\0":
                    yield kind, table[content : content + size]
                at = content + _up(size, step)


def _pairs(properties: bytes) -> Iterator[tuple[int, int]]:
    """Kind and bits of the properties that are one number."""
    at = 0
    while at + 12 <= len(properties):
        kind, size, bits = struct.unpack_from("<III", properties, at)
        if size == 4:
            yield kind, bits
        at += 8 + _up(size, 8)


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def without_landing(path: Path) -> tuple[int, ...]:
    """Addresses of an arm64 file that are called through a table, or from outside, and at which no call may arrive.

    Raises ``BundleError``.
    """
    with sound_elf(path) as file:
        return tuple(
            address
            for address in sorted(_entries(file))
            if int.from_bytes(file.memory(address, 4), "little") not in _LANDINGS
        )


def _entries(file: Elf[mmap.mmap]) -> set[int]:
    """Addresses of a file's entry point and of the functions that its data refers to."""
    code = [
        range(segment.address, segment.address + segment.in_memory)
        for segment in file.loads
        if segment.flags & PF_EXECUTE
    ]
    found = {file.header[4]} - {0}
    tags = dict(file.dynamic())
    if tags.get(DT_RELA):
        start = file.offset_of(tags[DT_RELA])
        for _, kind, value in struct.iter_unpack("<QQq", file.content[start : start + tags[DT_RELASZ]]):
            found |= {value} if kind == _RELATIVE else set()
    return {address for address in found if any(address in each for each in code)}


def require_hardened(path: Path, *, marks: Collection[str] = ()) -> None:
    """Raise ``BundleError`` for a file of our own linking that is not, or that does not bear these marks."""
    lacks = [*weaknesses(path)]
    lacks += [f"it is not marked {mark}" for mark in sorted({*marks} - marks_of(path))]
    if "bti" in marks and (bare := without_landing(path)):
        lacks.append(f"{len(bare)} of its functions have no landing pad, the first at {bare[0]:#x}")
    if lacks:
        raise BundleError(
            f"{path.name} is not hardened: {'; '.join(lacks)}",
            hint="this is a bug in the toolchain or in edgepack",
        )
