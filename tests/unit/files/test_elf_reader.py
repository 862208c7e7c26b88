"""ELF files are read as pyelftools reads them; what is damaged is an error and nothing else."""

import platform
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from edgepack.files.elf_reader import (
    DT_NEEDED,
    ELF64,
    PT_LOAD,
    SHT_DYNAMIC,
    SHT_DYNSYM,
    SHT_NOBITS,
    SHT_SYMTAB,
    Elf,
    ElfError,
    opened_elf,
    read_elf,
)

SOURCE = """
#include <stddef.h>
int puts(const char *); extern int absent(void) __attribute__((weak)); static int hidden(void) { return 3; }
int table[1000]; const char *words[] = {"one", "two"};
int call(void) { return puts(words[1]) + hidden() + (absent ? absent() : 0); }
"""


def compiled(path: Path, *options: str) -> Path:
    subprocess.run(
        ["gcc", "-fPIC", "-x", "c", "-o", path, "-", *options], input=SOURCE, text=True, check=True
    )
    return path


OPTIONS = {
    "library": ("-shared", "-Wl,-soname,libjudged.so.1"),
    "object": ("-c", "-ffunction-sections"),
    "32 bits": ("-m32", "-shared", "-nostdlib"),
}
needs_gcc = pytest.mark.tools("gcc")


@pytest.fixture(
    scope="module",
    params=[*(pytest.param(name, marks=needs_gcc) for name in OPTIONS), "python", "tokenizers"],
)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "python":
        return Path(sys.executable).resolve()
    if request.param == "tokenizers":
        import tokenizers

        return next(Path(tokenizers.__file__).parent.glob("tokenizers*.so"))
    if request.param == "32 bits" and platform.machine() != "x86_64":
        pytest.skip("this gcc has no -m32")
    return compiled(tmp_path_factory.mktemp("elf") / "judged", *OPTIONS[request.param])


def by_judge(path: Path) -> dict[str, Any]:
    """What pyelftools says of a file."""
    with path.open("rb") as stream:
        judge = ELFFile(stream)
        sections = list(judge.iter_sections())
        dynamic = [section for section in sections if isinstance(section, DynamicSection)]
        needs = [section for section in sections if isinstance(section, GNUVerNeedSection)]
        numbers = [section for section in sections if isinstance(section, GNUVerSymSection)]
        return {
            "machine": judge.header["e_machine"],
            "bits": judge.elfclass,
            "sections": [
                (each.name, each["sh_flags"], each["sh_addr"], each["sh_offset"], each["sh_size"])
                for each in sections
            ],
            "data": [each.data() if each["sh_type"] != "SHT_NOBITS" else b"" for each in sections],
            "loads": [
                (each["p_flags"], each["p_offset"], each["p_vaddr"], each["p_filesz"], each["p_memsz"])
                for each in judge.iter_segments("PT_LOAD")
            ],
            "symbols": [
                [
                    # pyelftools gives symbols without a name those of their sections
                    (symbol.name if symbol.entry["st_name"] else "", _section_of(symbol.entry["st_shndx"]))
                    for symbol in section.iter_symbols()
                ]
                for kind in ("SHT_SYMTAB", "SHT_DYNSYM")
                for section in sections
                if isinstance(section, SymbolTableSection) and section["sh_type"] == kind
            ],
            "needed": [str(vars(tag)["needed"]) for each in dynamic for tag in each.iter_tags("DT_NEEDED")],
            "versions": [
                (library.name, version.name, version["vna_other"])
                for each in needs
                for library, versions in each.iter_versions()
                for version in versions
            ],
            "numbers": [_number_of(symbol["ndx"]) for each in numbers for symbol in each.iter_symbols()],
        }


def _section_of(index: int | str) -> int:
    special = {"SHN_UNDEF": 0, "SHN_ABS": 0xFFF1, "SHN_COMMON": 0xFFF2}
    return special[index] if isinstance(index, str) else index


def _number_of(index: int | str) -> int:
    special = {"VER_NDX_LOCAL": 0, "VER_NDX_GLOBAL": 1}
    return special[index] if isinstance(index, str) else index & 0x7FFF


def by_us(elf: Elf[Any], machine: str) -> dict[str, Any]:
    tables = [list(elf.symbols(kind)) for kind in (SHT_SYMTAB, SHT_DYNSYM)]
    return {
        "machine": machine,
        "bits": elf.bits,
        "sections": [(each.name, each.flags, each.address, each.offset, each.size) for each in elf.sections],
        "data": [elf.data(each) for each in elf.sections],
        "loads": [
            (each.flags, each.offset, each.address, each.in_file, each.in_memory) for each in elf.loads
        ],
        "symbols": [[(name, section) for name, _, section in table] for table in tables if table],
        "needed": elf.dynamic_texts(DT_NEEDED),
        "versions": list(map(tuple, elf.needed_versions())),
        "numbers": list(elf.symbol_versions()),
    }


MACHINES = {62: "EM_X86_64", 3: "EM_386", 183: "EM_AARCH64"}


def test_files_are_read_as_pyelftools_reads_them(file: Path) -> None:
    expected = by_judge(file)
    with opened_elf(file) as elf:
        assert by_us(elf, MACHINES[elf.machine]) == expected
    content = file.read_bytes()
    assert by_us(read_elf(content), expected["machine"]) == expected


def test_memory_is_what_the_loader_makes_of_the_file(file: Path) -> None:
    with opened_elf(file) as elf:
        for segment in elf.loads:
            assert segment.kind == PT_LOAD
            assert elf.offset_of(segment.address) == segment.offset
            found = elf.memory(segment.address, segment.in_memory)
            beyond = bytes(segment.in_memory - segment.in_file)
            assert found == elf.content[segment.offset : segment.offset + segment.in_file] + beyond
        with pytest.raises(ElfError, match="not in the file"):
            elf.offset_of(1 << 60)


def test_local_symbols_can_be_left_out(file: Path) -> None:
    with opened_elf(file) as elf:
        for kind in (SHT_SYMTAB, SHT_DYNSYM):
            everything = list(elf.symbols(kind))
            assert list(elf.symbols(kind, local=False)) == [each for each in everything if each[1] >> 4]


def asked_everything(content: bytes) -> None:
    elf = read_elf(content)
    for section in elf.sections:
        elf.data(section)
    for kind in (SHT_SYMTAB, SHT_DYNSYM):
        list(elf.symbols(kind))
    elf.dynamic_texts(DT_NEEDED)
    list(elf.needed_versions())
    assert elf.symbol_versions() is not None
    assert elf.segments is not None


@needs_gcc
def test_whatever_is_wrong_with_a_file_is_one_error(tmp_path: Path) -> None:
    content = compiled(tmp_path / "lib.so", "-shared").read_bytes()
    asked_everything(content)
    for size in [*range(130), *range(130, len(content), 97)]:
        with pytest.raises(ElfError):
            asked_everything(content[:size])
    chance, refused = random.Random(5), 0
    headers = struct.unpack_from("<Q", content, 40)[0]
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(chance.choice((1, 1, 3))):
            at = chance.choice(
                (
                    chance.randrange(16, 64),
                    chance.randrange(headers, len(content)),
                    chance.randrange(len(content)),
                )
            )
            damaged[at] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        try:
            asked_everything(bytes(damaged))
        except ElfError:
            refused += 1
    assert refused > 300


def crafted(kind: int, table: bytes, *, names: bytes, times: int = 1) -> bytes:
    """A file with ``times`` section headers of one table, whose names are ``names``."""

    def header(kind: int, offset: int, size: int) -> bytes:
        return ELF64.section.pack(0, kind, 0, 0, offset, size, 1, 0, 8, 16)

    tables, at = names + table, ELF64.header.size
    strings, rows = header(3, at, len(names)), header(kind, at + len(names), len(table)) * times
    sections = header(0, 0, 0) + strings + rows
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    about = (3, 62, 1, 0, 0, at + len(tables), 0, 64, 56, 0, 64, times + 2, 1)
    return ELF64.header.pack(ident, *about) + tables + sections


def test_names_that_share_megabytes_are_not_copied() -> None:
    """Some kilobytes of an archive would stand for hundreds of gigabytes."""
    name = b"A" * 65_535 + b"\0"
    needed = struct.pack("<QQ", DT_NEEDED, 0)
    content = crafted(SHT_DYNAMIC, needed * 2, names=name)
    assert read_elf(content).dynamic_texts(DT_NEEDED) == ["A" * 65_535] * 2
    with pytest.raises(ElfError, match="names are together far longer"):
        read_elf(crafted(SHT_DYNAMIC, needed * 4096, names=name)).dynamic_texts(DT_NEEDED)
    symbols = ELF64.symbol.pack(0, 16, 0, 1, 0, 0) * 4096
    with pytest.raises(ElfError, match="names are together far longer"):
        list(read_elf(crafted(SHT_DYNSYM, symbols, names=name)).symbols(SHT_DYNSYM))
    with pytest.raises(ElfError, match="sections are together far longer"):
        list(read_elf(crafted(SHT_DYNSYM, symbols, names=b"\0", times=60)).symbols(SHT_DYNSYM))


def test_a_table_of_versions_that_goes_round_ends(tmp_path: Path) -> None:
    with opened_elf(Path(sys.executable).resolve()) as elf:
        content = bytearray(elf.content)
        section = elf.section(".gnu.version_r")
    assert section is not None
    struct.pack_into("<I", content, section.offset + 12, 0)  # vn_next of the first
    at = read_elf(content).section_rows.index(tuple(section[:-1]))
    info_at = read_elf(content).header[6] + at * ELF64.section.size + 44
    struct.pack_into("<I", content, info_at, 0xFFFFFFFF)
    assert 0 < len(list(read_elf(content).needed_versions())) < 1000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not begin as one"),
        (b"MZ" + bytes(100), "does not begin as one"),
        (b"\x7fELF", "not little-endian"),
        (b"\x7fELF\x02\x02" + bytes(100), "not little-endian"),
        (b"\x7fELF\x03\x01" + bytes(100), "not little-endian"),
        (b"\x7fELF\x02\x01" + bytes(20), "ends within its header"),
    ],
)
def test_what_is_no_elf_file_says_why(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(ElfError, match=said):
        read_elf(content)
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ElfError, match=said if content else "it is empty"), opened_elf(tmp_path / "file"):
        pass


def test_a_section_without_bytes_in_the_file_has_none(file: Path) -> None:
    with opened_elf(file) as elf:
        assert {elf.data(each) for each in elf.sections if each.kind == SHT_NOBITS} <= {b""}
