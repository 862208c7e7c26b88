"""What ELF files ask of their system, on files compiled for the purpose and on this Python's own."""

import subprocess
import sys
from pathlib import Path

import pytest

from edgepack.errors import BundleError
from edgepack.files import elf

needs_gcc = pytest.mark.tools("gcc", "nm")


def compile_library(folder: Path, name: str, source: str, *options: str | Path) -> Path:
    """A shared library from a line of C."""
    path = folder / name
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "-o", path, "-", "-x", "none", *options],
        input=source,
        text=True,
        check=True,
    )
    return path


@needs_gcc
def test_needed_libraries(tmp_path: Path) -> None:
    other = compile_library(tmp_path, "libother.so.1", "int other(void) { return 1; }")
    path = compile_library(
        tmp_path,
        "libmine.so",
        "int other(void); int puts(const char *); int mine(void) { return other() + puts(0); }",
        other,
    )
    needs = elf.read_needs(path)
    assert str(other) in needs.libraries or "libother.so.1" in needs.libraries
    assert "libc.so.6" in needs.libraries


@needs_gcc
def test_the_floor_is_the_newest_symbol(tmp_path: Path) -> None:
    old = compile_library(tmp_path, "libold.so", "int puts(const char *); int f(void) { return puts(0); }")
    new = compile_library(
        tmp_path, "libnew.so", "int close_range(int, int, int); int f(void) { return close_range(1, 1, 1); }"
    )
    assert elf.version_key(elf.glibc_floor(old) or "") < (2, 10)
    assert elf.glibc_floor(new) == "2.34"
    assert elf.floor_of(tmp_path) == "2.34"


@needs_gcc
def test_packed_relocations_count_as_a_floor(tmp_path: Path) -> None:
    path = compile_library(
        tmp_path,
        "librelr.so",
        'int puts(const char *); static char *s = "x"; int f(void) { return puts(s); } char **g(void) { return &s; }',
        "-Wl,-z,pack-relative-relocs",
    )
    if "GLIBC_ABI_DT_RELR" not in elf.read_needs(path).versions:
        pytest.skip("this linker does not mark packed relocations")
    assert elf.glibc_floor(path) == "2.36"


@needs_gcc
def test_foreign_libraries_are_those_neither_inside_nor_the_c_library(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    for folder, name in ((inside, "libnear.so"), (outside, "libfar.so")):
        compile_library(folder, name, f"int {name[3:-3]}(void) {{ return 1; }}", f"-Wl,-soname,{name}")
    path = compile_library(
        inside,
        "libmine.so",
        "int near(void); int far(void); int mine(void) { return near() + far(); }",
        inside / "libnear.so",
        outside / "libfar.so",
    )
    assert elf.foreign_libraries(inside) == {path: ("libfar.so",)}


@needs_gcc
def test_run_paths_that_lead_out_of_a_folder(tmp_path: Path) -> None:
    (folder := tmp_path / "folder" / "lib").mkdir(parents=True)
    inside = ["$ORIGIN", "${ORIGIN}/x", "$ORIGIN/../other", "$ORIGIN/../lib/../x"]
    outside = ["$ORIGIN/../..", "$ORIGIN/x/../../../y", "/usr/lib", "x", "$ORIGINAL/x"]
    path = compile_library(folder, "libx.so", "int x;", f"-Wl,-rpath,{':'.join((*inside, *outside))}")
    assert elf.run_paths(path) == (*inside, *outside)
    assert elf.foreign_run_paths(path, tmp_path / "folder") == tuple(outside)


@needs_gcc
def test_a_weakened_symbol_may_be_missing(tmp_path: Path) -> None:
    source = "int absent_one(void); int absent_two(void); int f(void) { return absent_one() + absent_two(); }"
    path = compile_library(tmp_path, "libweak.so", source)
    elf.weaken_undefined(path, prefix="absent_one")
    listing = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    kinds = {line.split()[-1]: line.split()[-2] for line in listing.splitlines()}
    assert kinds["absent_one"] == "w"
    assert kinds["absent_two"] == "U"


@needs_gcc
def test_a_needed_library_is_renamed_in_place(tmp_path: Path) -> None:
    other = compile_library(
        tmp_path, "libother.so.1", "int other(void) { return 1; }", "-Wl,-soname,libother.so.1"
    )
    path = compile_library(tmp_path, "libmine.so", "int other(void); int f(void) { return other(); }", other)
    size = path.stat().st_size
    elf.rename_needed(path, "libother.so.1", "libthird.so.9")
    assert "libthird.so.9" in elf.needed_libraries(path)
    assert path.stat().st_size == size
    with pytest.raises(BundleError):
        elf.rename_needed(path, "libthird.so.9", "libshort.so")


def test_undefined_symbols_by_version() -> None:
    import tokenizers

    compiled = next(Path(tokenizers.__file__).parent.glob("tokenizers*.so"))
    assert "_Znwm" in elf.undefined_symbols(compiled, versions=("GLIBCXX_",))
    assert "_Znwm" not in elf.undefined_symbols(compiled, versions=("GLIBC_",))


def test_this_python_is_for_this_machine() -> None:
    import platform

    assert elf.architecture(Path(sys.executable).resolve()) == platform.machine()


def test_a_text_is_no_elf_file(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("text")
    assert not elf.is_elf(path)
    assert elf.architecture(path) is None
    assert list(elf.elf_files(tmp_path)) == []
    assert elf.floor_of(tmp_path) is None


def test_a_damaged_elf_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(b"\x7fELF" + b"\xff" * 10)
    with pytest.raises(BundleError, match="damaged") as caught:
        elf.glibc_floor(path)
    assert caught.value.hint and "copy it again" in caught.value.hint


def test_versions_sort_as_numbers() -> None:
    assert max(["2.9", "2.17", "2.3.4"], key=elf.version_key) == "2.17"
