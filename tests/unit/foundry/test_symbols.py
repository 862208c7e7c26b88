"""What a library asks of its host is read from the finished file."""

import shutil
import subprocess
from pathlib import Path

import pytest

from edgepack.errors import FloorError
from edgepack.foundry.symbols import check_floor, symbols

GCC = shutil.which("gcc")
pytestmark = pytest.mark.tools("gcc", "readelf")


def library(folder: Path, text: str, *flags: str, name: str = "liba.so") -> Path:
    (folder / "a.c").write_text(text)
    made = folder / name
    subprocess.run([str(GCC), "-shared", "-fPIC", "-o", made, folder / "a.c", *flags], check=True)
    return made


def test_above_the_floor_the_build_fails(tmp_path: Path) -> None:
    # reallocarray came with glibc 2.26.
    made = library(
        tmp_path,
        "#define _GNU_SOURCE\n#include <stdlib.h>\nvoid *f(void *p) { return reallocarray(p, 2, 3); }\n",
    )
    for enough in ("2.26", "2.100"):
        check_floor(made, enough)
    with pytest.raises(FloorError, match=r"liba\.so needs glibc 2\.26; the target has 2\.17"):
        check_floor(made, "2.17")


def test_another_library_than_the_c_library_is_refused(tmp_path: Path) -> None:
    library(tmp_path, "int g(void) { return 1; }", name="libstranger.so")
    made = library(tmp_path, "int g(void); int f(void) { return g(); }", f"-L{tmp_path}", "-lstranger")
    with pytest.raises(FloorError, match=r"needs libstranger\.so"):
        check_floor(made, "2.40")


def test_packed_relocations_need_a_loader_that_knows_them(tmp_path: Path) -> None:
    # No C library, so no symbol version says anything: the dynamic section alone does.
    text = "static int x; int *table[] = {&x, &x, &x, &x, &x, &x, &x, &x};\n"
    made = library(tmp_path, text, "-nostdlib", "-Wl,-z,pack-relative-relocs")
    if ".relr.dyn" not in subprocess.run(["readelf", "-S", made], capture_output=True, text=True).stdout:
        pytest.skip("this linker does not pack relocations")
    check_floor(made, "2.36")
    with pytest.raises(FloorError, match=r"needs glibc 2\.36; the target has 2\.28"):
        check_floor(made, "2.28")


def test_symbols_of_a_shared_library(tmp_path: Path) -> None:
    found = symbols(
        library(tmp_path, "int f(void) { return 1; } static int g; int *h(void) { return &g; }"), dynamic=True
    )
    assert {"f", "h"} <= found.defines and "g" not in found.defines


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF\x01\x01 a 32-bit file", b"\x7fELF\x02\x01" + b"\xff" * 100]
)
def test_what_is_no_object(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.o").write_bytes(content)
    with pytest.raises(ValueError):
        symbols(tmp_path / "a.o")
