"""ELF files as they are written: headers, segments, sections, symbols and what is in the dynamic section.

Little-endian, of either word size (System V ABI, https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html; symbol versions:
LSB core specification 5.0, chapter 10.7). Nothing is copied before it is asked for: a file may be mapped.
"""

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from struct import Struct
from typing import Generic, NamedTuple, TypeVar

Bytes = TypeVar("Bytes", bound=bytes | bytearray | mmap.mmap)

MAGIC = b"\x7fELF"
MACHINES = {
    3: ("i686", 32),
    40: ("armv7l", 32),
    62: ("x86_64", 64),
    183: ("aarch64", 64),
    243: ("riscv64", 64),
    258: ("loongarch64", 64),
}
"""``e_machine`` → the processor as ``platform.machine()`` says it, and its word's bits."""
SHARED = 3
"""``ET_DYN``: shared libraries, and programs that are loaded anywhere."""
PT_LOAD, PT_INTERP = 1, 3
SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_DYNAMIC, SHT_NOBITS, SHT_DYNSYM = 0, 1, 2, 6, 8, 11
SHT_VERNEED, SHT_VERSYM = 0x6FFFFFFE, 0x6FFFFFFF
SHF_ALLOC, SHF_EXECINSTR = 2, 4
DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_RELR, DT_FLAGS_1 = 1, 14, 15, 29, 36, 0x6FFFFFFB
DF_1_PIE = 0x08000000
STB_WEAK, STB_GNU_UNIQUE = 2, 10
UNDEFINED = 0
"""Section of a symbol that another file has."""
_EXTENDED = 0xFFFF
"""``SHN_XINDEX``: the number did not fit and is in the first section's header."""
_LIBRARY, _VERSION, _NUMBER = Struct("<HHIII"), Struct("<IHHII"), Struct("<H")
"""``Verneed``, ``Vernaux`` and ``Versym``."""


@dataclass(frozen=True, kw_only=True)
class ElfFormat:
    """How the tables of one word size are laid out."""

    header: Struct
    """Ident, type, machine, version, entry, place of segments, of sections, flags, then sizes and numbers."""
    segment: Struct
    section: Struct
    symbol: Struct
    dynamic: Struct


ELF64 = ElfFormat(
    header=Struct("<16sHHIQQQIHHHHHH"),
    segment=Struct("<IIQQQQQQ"),
    section=Struct("<IIQQQQIIQQ"),
    symbol=Struct("<IBBHQQ"),
    dynamic=Struct("<qQ"),
)
ELF32 = ElfFormat(
    header=Struct("<16sHHIIIIIHHHHHH"),
    segment=Struct("<IIIIIIII"),
    section=Struct("<IIIIIIIIII"),
    symbol=Struct("<IIIBBH"),
    dynamic=Struct("<iI"),
)


class ElfError(ValueError):
    """Bytes that are no ELF file of a kind that is read, or not a whole one."""


class ElfSegment(NamedTuple):
    """A program header, in the order of 64-bit files."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    in_file: int
    in_memory: int
    align: int


class ElfSection(NamedTuple):
    """A section header and its name."""

    name_at: int
    """In the section of names."""
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int
    name: str


OVERLAP = 4
"""How many times as long as the file what is read of it may be: names and sections may share bytes."""
Symbol = tuple[str, int, int]
"""Name (empty: of a section, or of nothing), info (binding in the upper four bits, type in the lower ones), section."""


class NeededVersion(NamedTuple):
    """A version of a library's symbols that a file asks for."""

    library: str
    name: str
    number: int
    """What symbols of this version have in the table of versions."""


@dataclass(frozen=True, kw_only=True)
class Elf(Generic[Bytes]):
    """A file's bytes and headers; tables are read when they are asked for, which raises ``ElfError`` too."""

    content: Bytes
    format: ElfFormat
    header: tuple[int, ...]
    """As ``format`` has it (its first is not a number, but the ident)."""

    @property
    def kind(self) -> int:
        return self.header[1]

    @property
    def machine(self) -> int:
        return self.header[2]

    @property
    def bits(self) -> int:
        return 64 if self.format is ELF64 else 32

    @cached_property
    def segments(self) -> tuple[ElfSegment, ...]:
        rows = self._table(self.format.segment, self.header[5], self.header[9], self.header[10])
        if self.format is ELF32:  # the flags stand elsewhere
            return tuple(ElfSegment._make([each[0], each[6], *each[1:6], each[7]]) for each in rows)
        return tuple(map(ElfSegment._make, rows))

    @cached_property
    def section_rows(self) -> list[tuple[int, ...]]:
        """The section headers as they are, without names: objects have thousands."""
        start, size, count = self.header[6], self.header[11], self.header[12]
        if not start:
            return []
        if not count:  # more than fit into the header
            count = next(self._table(self.format.section, start, size, 1))[5]
        return list(self._table(self.format.section, start, size, count))

    @cached_property
    def sections(self) -> tuple[ElfSection, ...]:
        if not self.section_rows:
            return ()
        index = self.header[13] if self.header[13] != _EXTENDED else self.section_rows[0][6]
        names, texts = self._row(index)[4], self._texts()
        return tuple(ElfSection._make([*each, texts(names + each[0])]) for each in self.section_rows)

    @property
    def code(self) -> Iterator[ElfSection]:
        """The sections of machine code."""
        return (each for each in self.sections if each.flags & SHF_EXECINSTR and each.kind == SHT_PROGBITS)

    def section(self, name: str) -> ElfSection | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    @property
    def loads(self) -> tuple[ElfSegment, ...]:
        """The segments that are in memory."""
        return tuple(segment for segment in self.segments if segment.kind == PT_LOAD)

    def offset_of(self, address: int) -> int:
        """Offset in the file of an address. Raises ``ElfError`` for one that no byte of the file is at."""
        for segment in self.loads:
            if segment.address <= address < segment.address + segment.in_file:
                return segment.offset + address - segment.address
        raise ElfError(f"address {address:#x} is not in the file")

    def memory(self, address: int, size: int) -> bytes:
        """Memory from an address on, before anything is relocated: zeros where the file has nothing."""
        found = bytearray(size)
        for segment in self.loads:
            first = max(address, segment.address)
            last = min(address + size, segment.address + segment.in_file)
            if first < last:
                start = segment.offset + first - segment.address
                found[first - address : last - address] = self.content[start : start + last - first]
        return bytes(found)

    def data(self, row: tuple[int, ...] | ElfSection) -> bytes:
        """Content of a section in the file."""
        if row[1] == SHT_NOBITS:
            return b""
        if row[4] + row[5] > len(self.content):
            raise ElfError("it ends before one of its sections does")
        return bytes(self.content[row[4] : row[4] + row[5]])

    def text(self, at: int) -> str:
        """The name that begins at a place of the file."""
        end = self.content.find(b"\0", at) if at < len(self.content) else -1
        if end < 0:
            raise ElfError("it ends within a name")
        return self.content[at:end].decode("utf-8", "surrogateescape")

    def _texts(self) -> Callable[[int], str]:
        """``text`` for all names of a table: entries that share one of megabytes are no file that a linker writes."""
        left = OVERLAP * len(self.content)

        def text(at: int) -> str:
            nonlocal left
            found = self.text(at)
            left -= len(found) + 1
            if left < 0:
                raise ElfError("its names are together far longer than it is")
            return found

        return text

    def symbols(self, kind: int, *, local: bool = True) -> Iterator[Symbol]:
        """Those of every table of a kind (``SHT_SYMTAB``, ``SHT_DYNSYM``), in their order."""
        content, find, left = self.content, self.content.find, OVERLAP * len(self.content)
        for row in self._rows(kind):
            names = self._names(row)
            table = self.format.symbol.iter_unpack(self._whole(row, self.format.symbol))
            if self.format is ELF32:
                table = ((name, info, other, index, 0, 0) for name, _, _, info, other, index in table)
            for name, info, _, index, _, _ in table:
                if local or info >= 16:
                    at = names + name
                    end = find(b"\0", at)
                    if end < 0:
                        raise ElfError("it ends within a name")
                    left -= end - at + 1
                    if left < 0:
                        raise ElfError("its names are together far longer than it is")
                    yield content[at:end].decode("utf-8", "surrogateescape"), info, index

    def dynamic(self) -> Iterator[tuple[int, int]]:
        """Tag and value of what is in the dynamic section."""
        for row in self._rows(SHT_DYNAMIC):
            for tag, value in self.format.dynamic.iter_unpack(self._whole(row, self.format.dynamic)):
                if not tag:
                    return
                yield tag, value

    def dynamic_texts(self, tag: int) -> list[str]:
        """The names under a tag of the dynamic section, e.g. ``DT_NEEDED``."""
        places = [value for found, value in self.dynamic() if found == tag]
        names = self._names(next(self._rows(SHT_DYNAMIC))) if places else 0
        texts = self._texts()
        return [texts(names + place) for place in places]

    def needed_versions(self) -> Iterator[NeededVersion]:
        """Which versions of its libraries' symbols the file asks for."""
        texts = self._texts()
        for row in self._rows(SHT_VERNEED):
            names, table, at = self._names(row), self.data(row), 0
            for _ in range(row[7]):
                _, count, library, first, following = _unpacked(_LIBRARY, table, at)
                version_at = at + first
                for _ in range(count):
                    _, _, index, name, after = _unpacked(_VERSION, table, version_at)
                    yield NeededVersion(texts(names + library), texts(names + name), index)
                    version_at += after
                    if not after:
                        break
                at += following
                if not following:
                    break

    def symbol_versions(self) -> tuple[int, ...]:
        """For each dynamic symbol the index of its version; none where nothing has a version."""
        row = next(self._rows(SHT_VERSYM), None)
        if row is None:
            return ()
        return tuple(number & 0x7FFF for (number,) in _NUMBER.iter_unpack(self._whole(row, _NUMBER)))

    def _table(self, form: Struct, start: int, size: int, count: int) -> Iterator[tuple[int, ...]]:
        if count and size != form.size:
            raise ElfError(f"its headers are of {size} bytes, not {form.size}")
        if start + count * size > len(self.content):
            raise ElfError("it ends before its headers do")
        return (form.unpack_from(self.content, start + index * size) for index in range(count))

    def _rows(self, kind: int) -> Iterator[tuple[int, ...]]:
        left = OVERLAP * len(self.content)
        for row in self.section_rows:
            if row[1] == kind:
                left -= row[5]
                if left < 0:
                    raise ElfError("its sections are together far longer than it is")
                yield row

    def _names(self, row: tuple[int, ...]) -> int:
        """Offset in the file of a table's names."""
        place = self._row(row[6])[4]
        if place > len(self.content):
            raise ElfError("it ends before its names do")
        return place

    def _whole(self, row: tuple[int, ...], form: Struct) -> bytes:
        """The content of a table."""
        data = self.data(row)
        if len(data) % form.size:
            raise ElfError("one of its tables ends within an entry")
        return data

    def _row(self, index: int) -> tuple[int, ...]:
        if index >= len(self.section_rows):
            raise ElfError(f"it has no section {index}")
        return self.section_rows[index]


def _unpacked(form: Struct, table: bytes, at: int) -> tuple[int, ...]:
    if at + form.size > len(table):
        raise ElfError("its table of versions ends within an entry")
    return form.unpack_from(table, at)


def read_elf(content: Bytes) -> Elf[Bytes]:
    """The headers of a file's bytes. Raises ``ElfError``."""
    if content[:4] != MAGIC:
        raise ElfError("it does not begin as one")
    if len(content) < 16 or content[4] not in (1, 2) or content[5] != 1:
        raise ElfError("it is not little-endian")
    format = ELF64 if content[4] == 2 else ELF32
    if len(content) < format.header.size:
        raise ElfError("it ends within its header")
    return Elf(content=content, format=format, header=format.header.unpack_from(content))


@contextmanager
def opened_elf(path: Path) -> Iterator[Elf[mmap.mmap]]:
    """A file, mapped. Raises ``OSError``, or ``ElfError`` for whatever is wrong with it while it is read."""
    with path.open("rb") as stream:
        if not stream.read(1):
            raise ElfError("it is empty")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield read_elf(content)
