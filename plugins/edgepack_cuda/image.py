"""An ELF file as the loader sees it: segments, what they are in memory, and how zeros in them come out of the file.

64-bit, little-endian shared libraries (System V ABI; https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html). Sections
are found by address, never by offset: what was taken out of a file has an address and no offset.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from edgepack.api import BundleError

PAGE = 0x1000
EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
PHDR = struct.Struct("<IIQQQQQQ")
SHDR = struct.Struct("<IIQQQQIIQQ")
PT_LOAD, PT_PHDR = 1, 6
SHT_NOBITS = 8
SHF_ALLOC = 2
READ_ONLY = 4
ZEROS = bytes(PAGE)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A program header."""

    kind: int
    flags: int
    offset: int
    address: int
    in_file: int
    in_memory: int
    align: int

    def holds(self, address: int) -> bool:
        return self.address <= address < self.address + self.in_memory


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section header, with its name."""

    name: str
    name_at: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


@dataclass(frozen=True, kw_only=True)
class Image:
    """A shared library's bytes and headers. ``content`` is changed in place by those who say so."""

    content: bytearray
    header: tuple[object, ...]
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]

    def section(self, name: str) -> Section | None:
        """The section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    @property
    def loads(self) -> tuple[Segment, ...]:
        return tuple(segment for segment in self.segments if segment.kind == PT_LOAD)

    def offset_of(self, address: int) -> int:
        """Where in the file an address comes from. Raises ``BundleError`` for one that no byte of the file is at."""
        for segment in self.loads:
            if segment.address <= address < segment.address + segment.in_file:
                return segment.offset + address - segment.address
        raise BundleError(f"address {address:#x} of the library is not in its file")

    def read(self, address: int, size: int) -> bytes:
        """What is in memory from an address on, before anything is relocated: zeros where the file has nothing."""
        found = bytearray(size)
        for segment in self.loads:
            first = max(address, segment.address)
            last = min(address + size, segment.address + segment.in_file)
            if first < last:
                start = segment.offset + first - segment.address
                found[first - address : last - address] = self.content[start : start + last - first]
        return bytes(found)


def read_image(content: bytes | bytearray, name: str) -> Image:
    """A library's headers, checked. Raises ``BundleError`` naming the file for what is none, is cut short or is stripped of sections."""
    content = bytearray(content)
    try:
        header = EHDR.unpack_from(content)
        ident, kind, machine = header[:3]
        if ident[:4] != b"\x7fELF":
            raise BundleError(f"{name} is not an ELF file", hint="name a shared library, lib….so")
        if ident[4:6] != b"\x02\x01" or kind != 3 or machine != 62:
            raise BundleError(f"{name} is not a shared library for x86-64")
        segments = tuple(
            _segment(PHDR.unpack_from(content, header[5] + index * PHDR.size)) for index in range(header[10])
        )
        sections = _sections(content, header)
    except struct.error as error:
        raise BundleError(f"{name} is cut short: {error}", hint="copy or download it again") from error
    image = Image(content=content, header=header, segments=segments, sections=sections)
    end = max((segment.offset + segment.in_file for segment in image.loads), default=0)
    if end > len(content):
        raise BundleError(
            f"{name} is cut short: {len(content)} bytes, its segments need {end}",
            hint="copy or download it again",
        )
    if not sections:
        raise BundleError(
            f"{name} has no section headers", hint="take the library as it was released, unstripped"
        )
    return image


def _segment(fields: tuple[int, ...]) -> Segment:
    kind, flags, offset, address, _, in_file, in_memory, align = fields
    return Segment(
        kind=kind,
        flags=flags,
        offset=offset,
        address=address,
        in_file=in_file,
        in_memory=in_memory,
        align=align,
    )


def _sections(content: bytearray, header: tuple[int, ...]) -> tuple[Section, ...]:
    start, count, names_at = header[6], header[12], header[13]
    if not start or not count:
        return ()
    rows = [SHDR.unpack_from(content, start + index * SHDR.size) for index in range(count)]
    names = rows[names_at][4]
    return tuple(
        Section(
            name=bytes(content[names + row[0] : content.index(0, names + row[0])]).decode("latin-1"),
            name_at=row[0],
            kind=row[1],
            flags=row[2],
            address=row[3],
            offset=row[4],
            size=row[5],
            link=row[6],
            info=row[7],
            align=row[8],
            entry=row[9],
        )
        for row in rows
    )


def memory_of(image: Image) -> bytearray:
    """All of a library in memory, from address 0 on, before anything is relocated."""
    size = max(segment.address + segment.in_memory for segment in image.loads)
    memory = bytearray(size)
    for segment in image.loads:
        piece = image.content[segment.offset : segment.offset + segment.in_file]
        memory[segment.address : segment.address + len(piece)] = piece
    return memory


def punch(image: Image, *, least: int = 4 * PAGE) -> bytes:
    """The file without its long runs of zero pages: read-only segments are split, and what is between comes from nowhere.

    The loader maps anonymous zero pages there, so that the library is the same in memory, byte for byte, and no
    relocation knows of it. The program headers, which become more, move behind everything else; only what the loader
    and section-wise readers need is written. ``least``: bytes of a run that is worth a mapping of its own.
    """
    pieces = [piece for segment in image.segments for piece in _split(image, segment, least)]
    written, moved = bytearray(image.content[: EHDR.size]), {}
    loads: list[Segment] = []
    for piece in pieces:
        if piece.kind != PT_LOAD:
            continue
        start = _place(len(written) if loads else 0, piece)
        written += bytes(max(0, start - len(written)))
        written[start:] = image.content[piece.offset : piece.offset + piece.in_file]
        moved[piece.offset, piece.in_file] = start
        loads.append(piece)

    def place(offset: int) -> int | None:
        for (old, size), new in moved.items():
            if old <= offset < old + size or (offset == old + size and not size):
                return new + offset - old
        return None

    segments = [_moved(piece, place, moved) for piece in pieces if piece.kind != PT_PHDR]
    sections, tail = _moved_sections(image, place, len(written))
    written += tail
    return _with_headers(image, written, segments, sections)


def _split(image: Image, segment: Segment, least: int) -> Iterator[Segment]:
    """A segment as pieces that begin and end at pages, without the zeros between them."""
    if segment.kind != PT_LOAD or segment.flags != READ_ONLY:
        yield segment
        return
    runs = list(_zero_runs(image.content, segment, least))
    address, offset, end = segment.address, segment.offset, segment.offset + segment.in_file
    for first, last in runs:
        yield replace(
            segment,
            offset=offset,
            address=address,
            in_file=first - offset,
            in_memory=(last if last < end else end + segment.in_memory - segment.in_file) - offset,
        )
        address, offset = address + last - offset, last
    if offset < end:
        rest = segment.in_memory - (address - segment.address)
        yield replace(segment, offset=offset, address=address, in_file=end - offset, in_memory=rest)


def _zero_runs(content: bytearray, segment: Segment, least: int) -> Iterator[tuple[int, int]]:
    """Offsets of the runs of whole zero pages (as mapped) after the segment's first page."""
    begun: int | None = None
    shift = -segment.address % PAGE
    start, end = segment.offset + shift, segment.offset + segment.in_file
    start = start if start > segment.offset else segment.offset + PAGE
    at = start
    while at + PAGE <= end:
        if content[at : at + PAGE] == ZEROS:
            begun = at if begun is None else begun
        elif begun is not None:
            if at - begun >= least:
                yield begun, at
            begun = None
        at += PAGE
    if begun is not None and at - begun >= least:
        yield begun, at


def _place(end: int, piece: Segment) -> int:
    """The next offset that is congruent to the piece's address, as a mapping asks for."""
    align = max(piece.align, PAGE)
    return end + (piece.address - end) % align


def _moved(piece: Segment, place: Callable[[int], int | None], moved: dict[tuple[int, int], int]) -> Segment:
    if piece.kind == PT_LOAD:
        return replace(piece, offset=moved[piece.offset, piece.in_file])
    found = place(piece.offset)
    return replace(piece, offset=piece.offset if found is None else found)


def _moved_sections(
    image: Image, place: Callable[[int], int | None], end: int
) -> tuple[list[Section], bytearray]:
    """The section headers with their new offsets, and the content of sections that no segment holds.

    A section of which something came out has no bytes in one piece: it says that it has none in the file, so that tools
    that go by sections (NVIDIA's refuse a file whose sections reach beyond its end) pass over it.
    """
    tail, sections = bytearray(), []
    for section in image.sections:
        if section.kind in (0, SHT_NOBITS):
            sections.append(replace(section, offset=place(section.offset) or section.offset))
        elif section.flags & SHF_ALLOC:
            first, last = place(section.offset), place(section.offset + max(section.size, 1) - 1)
            whole = first is not None and last is not None and last - first == max(section.size, 1) - 1
            kind = section.kind if whole else SHT_NOBITS
            sections.append(replace(section, offset=first or 0, kind=kind))
        else:
            tail += bytes(-(end + len(tail)) % 8)
            sections.append(replace(section, offset=end + len(tail)))
            tail += image.content[section.offset : section.offset + section.size]
    return sections, tail


def _with_headers(
    image: Image, written: bytearray, segments: list[Segment], sections: list[Section]
) -> bytes:
    written += bytes(-len(written) % 8)
    segments_at = len(written)
    for each in segments:
        written += PHDR.pack(
            each.kind,
            each.flags,
            each.offset,
            each.address,
            each.address,
            each.in_file,
            each.in_memory,
            each.align,
        )
    sections_at = len(written)
    for row in sections:
        written += SHDR.pack(
            row.name_at,
            row.kind,
            row.flags,
            row.address,
            row.offset,
            row.size,
            row.link,
            row.info,
            row.align,
            row.entry,
        )
    fields = list(image.header)
    fields[5], fields[6], fields[10] = segments_at, sections_at, len(segments)
    EHDR.pack_into(written, 0, *fields)
    return bytes(written)
