"""An ELF file as the loader sees it: segments, what they are in memory, and how zeros in them come out of the file.

64-bit, little-endian shared libraries (System V ABI; https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html). Sections
are found by address, never by offset: what was taken out of a file has an address and no offset.
"""

from collections.abc import Callable, Iterator

from edgepack.api import BundleError
from edgepack.api.kit import Elf, ElfSegment, read_elf
from edgepack.files.elf_reader import ELF64, PT_LOAD, SHARED, SHF_ALLOC, SHT_NOBITS, ElfError, ElfSection

PAGE = 0x1000
WORDS_64_LITTLE = b"\x02\x01"
"""``ELFCLASS64`` and ``ELFDATA2LSB``."""
X86_64, PT_PHDR = 62, 6
"""``EM_X86_64``, and the program headers themselves."""
READ_ONLY = 4
ZEROS = bytes(PAGE)
WORTH_MAPPING = 4 * PAGE
"""Bytes of a run of zeros that is worth a mapping of its own."""

Image = Elf[bytearray]
"""A shared library whose bytes are changed in place by those who say so."""


def read_image(content: bytes | bytearray, name: str) -> Image:
    """A library's headers, checked. Raises ``BundleError`` naming the file for what is none, is cut short or is stripped of sections."""
    if content[:4] != b"\x7fELF":
        raise BundleError(f"{name} is not an ELF file", hint="name a shared library, lib….so")
    try:
        image = read_elf(bytearray(content)) if content[4:6] == WORDS_64_LITTLE else None
        if image is None or image.kind != SHARED or image.machine != X86_64:
            raise BundleError(f"{name} is not a shared library for x86-64")
        end = max((segment.offset + segment.in_file for segment in image.loads), default=0)
        sections = image.sections
    except ElfError as error:
        raise BundleError(
            f"{name} is not a valid ELF file: {error}", hint="copy or download it again"
        ) from error
    if end > len(content):
        raise BundleError(
            f"{name} is truncated: {len(content)} bytes, its segments need {end}",
            hint="copy or download it again",
        )
    if not sections:
        raise BundleError(f"{name} has no section headers", hint="use the library as released, unstripped")
    return image


def memory_of(image: Image) -> bytearray:
    """All of a library in memory, from address 0 on, before anything is relocated."""
    size = max(segment.address + segment.in_memory for segment in image.loads)
    memory = bytearray(size)
    for segment in image.loads:
        piece = image.content[segment.offset : segment.offset + segment.in_file]
        memory[segment.address : segment.address + len(piece)] = piece
    return memory


def punch(image: Image) -> bytes:
    """The file without its long runs of zero pages: read-only segments are split, and what is between comes from nowhere.

    The loader maps anonymous zero pages there, so that the library is the same in memory, byte for byte, and no
    relocation knows of it. The program headers, which become more, move behind everything else; only what the loader
    and section-wise readers need is written.
    """
    pieces = [piece for segment in image.segments for piece in _split(image, segment)]
    written, moved = bytearray(image.content[: ELF64.header.size]), {}
    loads: list[ElfSegment] = []
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


def _split(image: Image, segment: ElfSegment) -> Iterator[ElfSegment]:
    """A segment as pieces that begin and end at pages, without the zeros between them."""
    if segment.kind != PT_LOAD or segment.flags != READ_ONLY:
        yield segment
        return
    runs = list(_zero_runs(image.content, segment))
    address, offset, end = segment.address, segment.offset, segment.offset + segment.in_file
    for first, last in runs:
        yield segment._replace(
            offset=offset,
            address=address,
            in_file=first - offset,
            in_memory=(last if last < end else end + segment.in_memory - segment.in_file) - offset,
        )
        address, offset = address + last - offset, last
    if offset < end:
        rest = segment.in_memory - (address - segment.address)
        yield segment._replace(offset=offset, address=address, in_file=end - offset, in_memory=rest)


def _zero_runs(content: bytearray, segment: ElfSegment) -> Iterator[tuple[int, int]]:
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
            if at - begun >= WORTH_MAPPING:
                yield begun, at
            begun = None
        at += PAGE
    if begun is not None and at - begun >= WORTH_MAPPING:
        yield begun, at


def _place(end: int, piece: ElfSegment) -> int:
    """The next offset that is congruent to the piece's address, as a mapping asks for."""
    align = max(piece.align, PAGE)
    return end + (piece.address - end) % align


def _moved(
    piece: ElfSegment, place: Callable[[int], int | None], moved: dict[tuple[int, int], int]
) -> ElfSegment:
    if piece.kind == PT_LOAD:
        return piece._replace(offset=moved[piece.offset, piece.in_file])
    found = place(piece.offset)
    return piece._replace(offset=piece.offset if found is None else found)


def _moved_sections(
    image: Image, place: Callable[[int], int | None], end: int
) -> tuple[list[ElfSection], bytearray]:
    """The section headers with their new offsets, and the content of sections that no segment holds.

    A section of which something came out has no bytes in one piece: it says that it has none in the file, so that tools
    that go by sections (NVIDIA's refuse a file whose sections reach beyond its end) pass over it.
    """
    tail, sections = bytearray(), []
    for section in image.sections:
        if section.kind in (0, SHT_NOBITS):
            sections.append(section._replace(offset=place(section.offset) or section.offset))
        elif section.flags & SHF_ALLOC:
            first, last = place(section.offset), place(section.offset + max(section.size, 1) - 1)
            whole = first is not None and last is not None and last - first == max(section.size, 1) - 1
            kind = section.kind if whole else SHT_NOBITS
            sections.append(section._replace(offset=first or 0, kind=kind))
        else:
            tail += bytes(-(end + len(tail)) % 8)
            sections.append(section._replace(offset=end + len(tail)))
            tail += image.content[section.offset : section.offset + section.size]
    return sections, tail


def _with_headers(
    image: Image, written: bytearray, segments: list[ElfSegment], sections: list[ElfSection]
) -> bytes:
    written += bytes(-len(written) % 8)
    segments_at = len(written)
    for segment in segments:
        written += ELF64.segment.pack(*segment._replace(physical=segment.address))
    sections_at = len(written)
    for section in sections:
        written += ELF64.section.pack(*section[:-1])  # without its name
    fields = list(image.header)
    fields[5], fields[6], fields[10] = segments_at, sections_at, len(segments)
    ELF64.header.pack_into(written, 0, *fields)
    return bytes(written)
