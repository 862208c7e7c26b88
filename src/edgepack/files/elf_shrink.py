"""A shared library of others without what nothing needs: libraries that it names and does not use, sections that are never loaded."""

from collections.abc import Collection

from edgepack.files.elf_reader import (
    DT_NEEDED,
    SHF_ALLOC,
    SHT_DYNAMIC,
    SHT_NULL,
    Elf,
    ElfError,
    ElfSection,
    read_elf,
)

_ALIGNMENT = 8
_NAMES = ".shstrtab"


def shrunk(content: bytes, *, unnamed: Collection[str] = ()) -> bytes:
    """The library with the same memory image, but for its list of needed libraries, which no longer has those in ``unnamed``.

    Symbols for debuggers, comments and notes of compilers go; the table of sections stays, for tools that read it. Nothing
    that is loaded moves. Raises ``ElfError`` for what is no ELF file, or none that was written as linkers do.
    """
    elf = read_elf(bytearray(content))
    _unname(elf, unnamed)
    kept = [each for each in elf.sections if each.kind == SHT_NULL or each.flags & SHF_ALLOC]
    if tuple(kept) != elf.sections[: len(kept)]:
        # Symbols tell sections by their numbers.
        raise ElfError("sections that are not loaded lie between those that are")
    end = max(each.offset + each.in_file for each in elf.segments)
    return _written(elf, elf.content[:end], kept)


def _unname(elf: Elf[bytearray], unnamed: Collection[str]) -> None:
    """Take libraries out of the dynamic section, and move what follows up."""
    form = elf.format.dynamic
    row = next((each for each in elf.section_rows if each[1] == SHT_DYNAMIC), None)
    if row is None:
        raise ElfError("it has no dynamic section")
    start, size, names = row[4], row[5], elf.section_rows[row[6]][4]
    entries = [
        (tag, value)
        for tag, value in elf.dynamic()
        if tag != DT_NEEDED or elf.text(names + value) not in unnamed
    ]
    packed = b"".join(form.pack(tag, value) for tag, value in entries)
    elf.content[start : start + size] = packed.ljust(size, b"\0")


def _written(elf: Elf[bytearray], content: bytearray, sections: list[ElfSection]) -> bytes:
    """With a table of these sections, and their names, at the end."""
    names = bytearray(b"\0")
    rows = []
    for section in sections:
        rows.append(section._replace(name_at=len(names) if section.name else 0))
        names += section.name.encode() + b"\0" if section.name else b""
    own = ElfSection(len(names), 3, 0, 0, len(content), 0, 0, 0, 1, 0, _NAMES)
    names += _NAMES.encode() + b"\0"
    rows.append(own._replace(size=len(names)))
    content += names
    content += bytes(-len(content) % _ALIGNMENT)
    header = list(elf.header)
    header[6], header[12], header[13] = len(content), len(rows), len(rows) - 1
    for row in rows:
        content += elf.format.section.pack(*row[:-1])  # without its name
    elf.format.header.pack_into(content, 0, *header)
    return bytes(content)
