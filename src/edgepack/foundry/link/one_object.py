"""One object for programs of others: what it defines for itself is nobody else's, whatever they call their own."""

from collections.abc import Collection
from pathlib import Path
from struct import Struct

from edgepack.errors import BundleError
from edgepack.files.elf_reader import ELF64, SHT_SYMTAB, UNDEFINED, ElfError, read_elf

_RELA, _GROUP = 4, 17
_ENTRY = Struct("<QQq")
"""``Elf64_Rela``: place, then symbol and kind, then what is added."""


def keep_global(file: Path, names: Collection[str]) -> None:
    """Make all symbols that an object of 64 bits defines local, but for those in ``names``. Raises ``BundleError``."""
    try:
        file.write_bytes(_kept_global(bytearray(file.read_bytes()), names))
    except ElfError as error:
        raise BundleError(f"{file.name} is not an object that symbols can be hidden in: {error}") from error


def _kept_global(content: bytearray, names: Collection[str]) -> bytearray:
    elf = read_elf(content)
    rows = elf.section_rows
    tables = [index for index, row in enumerate(rows) if row[1] == SHT_SYMTAB]
    if elf.format is not ELF64 or len(tables) != 1 or any(row[1] == _GROUP for row in rows):
        raise ElfError("it has no 64 bits, not one table of symbols, or groups of sections")
    table = rows[tables[0]]
    entries = list(ELF64.symbol.iter_unpack(elf.data(table)))
    is_global = [
        info >= 16 and (section == UNDEFINED or name in names)
        for name, info, section in elf.symbols(SHT_SYMTAB)
    ]
    # Local ones come first, as every linker wants it.
    order = sorted(range(len(entries)), key=is_global.__getitem__)
    place = {old: new for new, old in enumerate(order)}
    for new, old in enumerate(order):
        name, info, *rest = entries[old]
        kind = info if is_global[old] else info & 15
        ELF64.symbol.pack_into(content, table[4] + new * ELF64.symbol.size, name, kind, *rest)
    _write_info(content, elf.header[6], tables[0], is_global.count(False))
    for row in rows:
        if row[1] == _RELA:
            for at in range(row[4], row[4] + row[5], _ENTRY.size):
                where, what, added = _ENTRY.unpack_from(content, at)
                _ENTRY.pack_into(content, at, where, place[what >> 32] << 32 | what & 0xFFFFFFFF, added)
    return content


def _write_info(content: bytearray, headers: int, section: int, info: int) -> None:
    """A table's count of local symbols, in its section's header."""
    at = headers + section * ELF64.section.size
    header = list(ELF64.section.unpack_from(content, at))
    header[7] = info
    ELF64.section.pack_into(content, at, *header)
