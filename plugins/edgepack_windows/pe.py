"""A program or a library as Windows loads it (PE32+) of what was linked for x86-64 as static-pie (ELF).

Code and data stay as the linker laid them, one page further on: before them are Windows' headers. What the ELF file says of
itself is said again in Windows' words: segments as sections, relative relocations as base relocations, the slots that
``imports.c`` keeps as imports, and what ``exports.c`` lists as exports.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from edgepack.api import BundleError
from edgepack.api.kit import Elf, ElfSegment, read_elf

BASE, LIBRARY_BASE = 0x1_4000_0000, 0x1_8000_0000
"""Where a program and a library would like to lie; Windows puts them elsewhere (ASLR)."""
PAGE, FILE_ALIGN = 0x1000, 0x200
SHIFT = PAGE
"""From the linker's addresses to those after the headers."""
STACK = 8 << 20
STACK_AT_ONCE = 64 << 10
SLOTS, NAMES = ".bss.rel.ro", "win32.names"
"""Sections of ``imports.c``."""
PLACES, EXPORTED = "win32.exports", "win32.exported"
"""Sections of ``exports.c``."""
MACHINE, CONSOLE = 0x8664, 3
WINDOWS_8 = (6, 2)
"""The first that has all that is imported."""
EXECUTABLE, LARGE_ADDRESSES, LIBRARY = 0x2, 0x20, 0x2000
HIGH_ENTROPY, DYNAMIC_BASE, NO_EXECUTE, TERMINAL_SERVER = 0x20, 0x40, 0x100, 0x8000
CODE, DATA, DISCARDABLE = 0x20, 0x40, 0x2000000
EXECUTE, READ, WRITE = 0x20000000, 0x40000000, 0x80000000
DIR64 = 10
PT_LOAD, PT_DYNAMIC, PT_RELRO = 1, 2, 0x6474E552
PF_X, PF_W = 1, 2
DT_RELA, DT_RELASZ, DT_RELR, DT_RELRSZ = 7, 8, 36, 35
RELATIVE = 8
EXPORT, IMPORT, RELOCATIONS, ADDRESS_TABLE = 0, 1, 5, 12
"""Places in the table of directories."""


@dataclass(frozen=True, kw_only=True)
class PeSection:
    """One section of the finished file; ``address`` is relative to the base."""

    name: str
    address: int
    size: int
    """In memory."""
    data: bytes
    flags: int


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Functions of one library, in the order of their slots."""

    library: str
    functions: tuple[str, ...]
    slot: int
    """Address of the first."""


def windows_program(elf: bytes, *, name: str) -> bytes:
    """The program. Raises ``BundleError`` for one that Windows could not load."""
    image = _Image(file=read_elf(elf), name=name, base=BASE)
    return _laid_out(image, [*image.sections()], {})


def windows_library(elf: bytes, *, name: str) -> bytes:
    """Makes a DLL of a library. Raises ``BundleError``."""
    image = _Image(file=read_elf(elf), name=name, base=LIBRARY_BASE)
    sections = [*image.sections()]
    exports = _exports(image.exported, name, _end(sections))
    sections.append(_appended(sections, ".edata", exports, DATA | READ))
    return _laid_out(image, sections, {EXPORT: (sections[-1].address, len(exports))}, kind=LIBRARY)


def _laid_out(
    image: "_Image", sections: list[PeSection], directories: dict[int, tuple[int, int]], *, kind: int = 0
) -> bytes:
    """With imports and base relocations after these sections."""
    imports, table = _imports([*image.imported], _end(sections))
    sections.append(_appended(sections, ".idata", imports, DATA | READ))
    relocations = _relocations([place + SHIFT for place in image.addends])
    sections.append(_appended(sections, ".reloc", relocations, DATA | READ | DISCARDABLE))
    directories |= {
        IMPORT: table,
        RELOCATIONS: (sections[-1].address, len(relocations)),
        ADDRESS_TABLE: image.slots,
    }
    return _file(sections, directories, entry=image.file.header[4] + SHIFT, base=image.base, kind=kind)


def _end(sections: Sequence[PeSection]) -> int:
    """Address at which the next section begins: Windows loads none that have gaps between them."""
    return _up(sections[-1].address + sections[-1].size, PAGE)


def _appended(sections: Sequence[PeSection], name: str, data: bytes, flags: int) -> PeSection:
    return PeSection(name=name, address=_end(sections), size=len(data), data=data, flags=flags)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


@dataclass(frozen=True, kw_only=True)
class _Image:
    """Content of the ELF file."""

    file: Elf[bytes]
    name: str
    base: int

    def wrong(self, what: str) -> BundleError:
        return BundleError(
            f"{self.name} cannot be made a program for Windows: {what}", hint="this is a bug in edgepack"
        )

    @cached_property
    def _tables(self) -> dict[int, int]:
        """The dynamic section."""
        found = next((each for each in self.file.segments if each.kind == PT_DYNAMIC), None)
        data = self.file.memory(found.address, found.in_file) if found else b""
        return dict(struct.iter_unpack("<qQ", data))

    @cached_property
    def addends(self) -> dict[int, int]:
        """Address of 8 bytes that hold an address → that one. Raises ``BundleError`` for what is relocated otherwise."""
        rows = self.file.memory(self._tables.get(DT_RELA, 0), self._tables.get(DT_RELASZ, 0))
        found = {place: int.from_bytes(self.file.memory(place, 8), "little") for place in self._packed()}
        for place, info, addend in struct.iter_unpack("<QQq", rows):
            if info != RELATIVE:
                raise self.wrong(f"relocation {info:#x} at {place:#x}")
            found[place] = addend
        return found

    def _packed(self) -> Iterator[int]:
        """``DT_RELR``: an address, then bits for the 63 words after it, again and again."""
        at = 0
        rows = self.file.memory(self._tables.get(DT_RELR, 0), self._tables.get(DT_RELRSZ, 0))
        for (word,) in struct.iter_unpack("<Q", rows):
            if not word & 1:
                yield word
                at = word + 8
            else:
                yield from (at + 8 * bit for bit in range(63) if word >> (bit + 1) & 1)
                at += 8 * 63

    def sections(self) -> Iterator[PeSection]:
        """One a segment, up to the next one, with addresses as they are at the base."""
        loads = self.file.loads
        starts = [load.address // PAGE * PAGE for load in loads]
        for load, start, after in zip(loads, starts, [*starts[1:], None], strict=True):
            end = load.address + load.in_memory
            if after is not None and after < _up(end, PAGE):
                raise self.wrong(f"two segments share the page at {after:#x}")
            data = bytearray(self.file.memory(start, load.address + load.in_file - start))
            if not start:
                # The ELF file's own header, which nothing asks for.
                data[: self.file.header[8]] = bytes(self.file.header[8])
            for place, addend in self.addends.items():
                if load.address <= place < end:
                    data[place - start : place - start + 8] = struct.pack("<Q", addend + SHIFT + self.base)
            name, flags = self._kind(load)
            size = (end if after is None else after) - start
            yield PeSection(name=name, address=start + SHIFT, size=size, data=bytes(data), flags=flags)

    def _kind(self, load: ElfSegment) -> tuple[str, int]:
        """Name and rights of a section; what is only relocated is not writable afterwards."""
        relro = next((each for each in self.file.segments if each.kind == PT_RELRO), None)
        fixed = relro is not None and relro.address <= load.address < relro.address + relro.in_memory
        if load.flags & PF_X:
            return ".text", CODE | EXECUTE | READ
        if load.flags & PF_W and not fixed:
            return ".data", DATA | READ | WRITE
        return ".rdata", DATA | READ

    @property
    def slots(self) -> tuple[int, int]:
        """Address and size of the imports' slots."""
        section = self.file.section(SLOTS)
        if section is None:
            raise self.wrong(f"it has no section {SLOTS}")
        return section.address + SHIFT, section.size

    @property
    def exported(self) -> dict[str, int]:
        """Function → address, in the order that Windows looks for them. Raises ``BundleError`` where the tables do not fit."""
        places, names = self.file.section(PLACES), self.file.section(EXPORTED)
        if places is None or names is None:
            raise self.wrong(f"it has no section {PLACES}")
        words = self.file.data(names).decode("ascii").rstrip("\0").split("\0")
        if len(words) * 8 != places.size:
            raise self.wrong(f"{len(words)} names for {places.size // 8} exports")
        rows = range(places.address, places.address + places.size, 8)
        return {word: self.addends[place] + SHIFT for word, place in sorted(zip(words, rows, strict=True))}

    @property
    def imported(self) -> Iterator[Imported]:
        """Imports, by library. Raises ``BundleError`` where names and slots do not fit."""
        section = self.file.section(NAMES)
        text = self.file.data(section).decode("ascii") if section else ""
        # Between two lists the linker may leave room.
        words = [word for word in text.split("\0") if word]
        start, size = self.slots
        if len(words) * 8 != size:
            raise self.wrong(f"{len(words)} names for {size // 8} slots of imports")
        marks = [index for index, word in enumerate(words) if word.startswith("=")]
        for here, after in pairwise(marks):
            functions = tuple(words[here + 1 : after])
            if not functions:  # the end of one list, before another
                continue
            yield Imported(library=words[here][1:], functions=functions, slot=start + 8 * (here + 1))


def _exports(exported: dict[str, int], name: str, at: int) -> bytes:
    """The section of exports for an address."""
    count, table = len(exported), 40
    texts, places = name.encode() + b"\0", []
    start = at + table + 10 * count
    for each in exported:
        places.append(start + len(texts))
        texts += each.encode() + b"\0"
    tables = (at + table, at + table + 4 * count, at + table + 8 * count)
    made = struct.pack("<IIHHIIII3I", 0, 0, 0, 0, start, 1, count, count, *tables)
    made += struct.pack(f"<{count}I", *exported.values()) + struct.pack(f"<{count}I", *places)
    return made + struct.pack(f"<{count}H", *range(count)) + texts


def _imports(imported: Sequence[Imported], at: int) -> tuple[bytes, tuple[int, int]]:
    """The section of imports for an address, and where its table of libraries is."""
    table = 20 * (len(imported) + 1)
    lookups = [8 * (len(each.functions) + 1) for each in imported]
    names = table + sum(lookups)
    rows, looked, texts = b"", b"", b""
    for each, size in zip(imported, lookups, strict=True):
        lookup = at + table + len(looked)
        for function in each.functions:
            looked += struct.pack("<Q", at + names + len(texts))
            text = struct.pack("<H", 0) + function.encode() + b"\0"
            texts += text + bytes(len(text) % 2)
        looked += bytes(8)
        assert lookup + size == at + table + len(looked)
        rows += struct.pack("<IIIII", lookup, 0, 0, at + names + len(texts), each.slot)
        texts += each.library.encode() + b"\0" + bytes((len(each.library) + 1) % 2)
    return rows + bytes(20) + looked + texts, (at, table)


def _relocations(places: Sequence[int]) -> bytes:
    """Base relocations, a block a page."""
    blocks: dict[int, list[int]] = {}
    for place in places:
        blocks.setdefault(place // PAGE * PAGE, []).append(place % PAGE)
    made = b""
    for page, offsets in sorted(blocks.items()):
        entries = [DIR64 << 12 | offset for offset in sorted(offsets)] + [0] * (len(offsets) % 2)
        made += struct.pack("<II", page, 8 + 2 * len(entries)) + struct.pack(f"<{len(entries)}H", *entries)
    return made


def _file(
    sections: Sequence[PeSection],
    directories: dict[int, tuple[int, int]],
    *,
    entry: int,
    base: int,
    kind: int,
) -> bytes:
    """Headers, then each section's bytes."""
    stub = 0x40
    headers = _up(stub + 24 + 240 + 40 * len(sections), FILE_ALIGN)
    rows, bodies, at = b"", b"", headers
    for each in sections:
        body = each.data.rstrip(b"\0") if each.flags & WRITE else each.data
        body += bytes(_up(len(body), FILE_ALIGN) - len(body))
        where = at if body else 0
        rows += struct.pack(
            "<8sIIIIIIHHI",
            each.name.encode(),
            each.size,
            each.address,
            len(body),
            where,
            0,
            0,
            0,
            0,
            each.flags,
        )
        bodies += body
        at += len(body)
    code = sum(_up(len(each.data), FILE_ALIGN) for each in sections if each.flags & CODE)
    data = sum(_up(len(each.data), FILE_ALIGN) for each in sections if not each.flags & CODE)
    text = next(each.address for each in sections if each.flags & CODE)
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, code, data, 0, entry, text)
    optional += struct.pack("<QII", base, PAGE, FILE_ALIGN)
    optional += struct.pack("<HHHHHH", *WINDOWS_8, 0, 0, *WINDOWS_8)
    optional += struct.pack("<IIII", 0, _end(sections), headers, 0)
    optional += struct.pack("<HH", CONSOLE, HIGH_ENTROPY | DYNAMIC_BASE | NO_EXECUTE | TERMINAL_SERVER)
    optional += struct.pack("<QQQQII", STACK, STACK_AT_ONCE, 1 << 20, PAGE, 0, 16)
    optional += b"".join(struct.pack("<II", *directories.get(index, (0, 0))) for index in range(16))
    head = b"MZ" + bytes(0x3A) + struct.pack("<I", stub)
    head += b"PE\0\0" + struct.pack(
        "<HHIIIHH", MACHINE, len(sections), 0, 0, 0, len(optional), EXECUTABLE | LARGE_ADDRESSES | kind
    )
    head += optional + rows
    return head + bytes(headers - len(head)) + bodies
