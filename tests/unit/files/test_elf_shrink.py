"""Libraries without what nothing needs: the same in memory, and still loaded."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from edgepack.files.elf import needed_libraries
from edgepack.files.elf_reader import ELF64, ElfError, read_elf
from edgepack.files.elf_shrink import shrunk

pytestmark = pytest.mark.tools("gcc")

SOURCE = "#include <math.h>\nint counter = 41;\ndouble root(double x) { counter++; return sqrt(fabs(x)) + cbrt(x) - cbrt(x); }\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It names libdl, of which it imports nothing, and has symbols for debuggers."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "one.c").write_text(SOURCE)
    options = ["-shared", "-fPIC", "-g", "-fno-builtin", "-Wl,--no-as-needed"]
    command = ["gcc", *options, "-o", str(folder / "libone.so"), str(folder / "one.c"), "-ldl", "-lm"]
    subprocess.run(command, check=True)
    return folder / "libone.so"


def test_what_is_left_is_loaded_and_the_same_in_memory(library: Path, tmp_path: Path) -> None:
    before = library.read_bytes()
    after = shrunk(before, unnamed=["libdl.so.2"])
    small = tmp_path / "libsmall.so"
    small.write_bytes(after)
    assert len(after) < len(before) * 0.9
    assert ctypes.CDLL(str(small)).root
    assert [name for name in needed_libraries(library) if name != "libdl.so.2"] == list(
        needed_libraries(small)
    )
    old, new = read_elf(before), read_elf(after)
    dynamic = old.section(".dynamic")
    assert dynamic is not None and old.segments == new.segments
    for segment in old.loads:
        ours, theirs = (bytearray(each.memory(segment.address, segment.in_memory)) for each in (new, old))
        for memory in (ours, theirs):
            start = dynamic.address - segment.address
            if 0 <= start < len(memory):
                memory[start : start + dynamic.size] = b""
            if segment.offset == 0:
                # It says where the table of sections is, which is not loaded.
                memory[: ELF64.header.size] = b""
        assert ours == theirs


def test_another_reader_of_elf_files_finds_its_sections(library: Path, tmp_path: Path) -> None:
    small = tmp_path / "libsmall.so"
    small.write_bytes(shrunk(library.read_bytes()))
    with small.open("rb") as stream:
        names = [section.name for section in ELFFile(stream).iter_sections()]
    assert {".text", ".dynsym", ".dynamic", ".shstrtab"} <= set(names)
    assert not {name for name in names if name.startswith(".debug") or name in (".symtab", ".comment")}


def test_what_is_no_library(library: Path) -> None:
    for content in (b"no library", library.read_bytes()[:40]):
        with pytest.raises(ElfError):
            shrunk(content)
