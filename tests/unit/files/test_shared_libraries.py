"""Which libraries go along, on libraries that name each other."""

from pathlib import Path

import pytest
from tests.support.fake_cuda import compile_library

from edgepack.errors import BundleError
from edgepack.files.elf import opened_libraries, unused_libraries
from edgepack.files.shared_libraries import closure_of

pytestmark = pytest.mark.tools("gcc")


def versioned(folder: Path, name: str, function: str) -> Path:
    """A library whose only function has a version."""
    script = folder / "map"
    script.write_text(f"{name} {{ global: *; }};")
    return compile_library(
        folder / name, f"int {function}(void) {{ return 1; }}\n", f"-Wl,--version-script={script}"
    )


@pytest.fixture
def libraries(tmp_path: Path) -> dict[str, Path]:
    """``liba`` calls ``libb.so.2`` and only names ``libc9.so.1``; ``libb.so.2`` calls ``libdriver.so.1``."""
    driver = compile_library(tmp_path / "libdriver.so.1", "int drive(void) { return 1; }\n")
    b = compile_library(
        tmp_path / "libb.so.2.5",
        "int drive(void); int b(void) { return drive(); }\n",
        driver,
        "-Wl,-soname,libb.so.2",
    )
    c = versioned(tmp_path, "libc9.so.1", "c9")
    source = 'int b(void); const char *later(void) { return "libplugin.so.7"; } int a(void) { return b(); }\n'
    a = compile_library(tmp_path / "liba.so", source, "-Wl,--no-as-needed", b, c)
    return {"a": a, "b": b, "c": c, "driver": driver}


def test_what_is_named_goes_along_under_the_name_that_it_is_asked_for(libraries: dict[str, Path]) -> None:
    closure = closure_of([libraries["a"]], among=libraries.values())
    assert set(closure.files) == {"liba.so", "libb.so.2", "libc9.so.1", "libdriver.so.1"}
    assert closure.files["libb.so.2"] == libraries["b"]
    assert closure.elsewhere == ()


def test_what_the_device_brings_stays_out_though_it_is_there(libraries: dict[str, Path]) -> None:
    closure = closure_of(
        [libraries["a"]], among=libraries.values(), elsewhere=("libdriver.so.1", "libother.so.1")
    )
    assert "libdriver.so.1" not in closure.files
    assert closure.elsewhere == ("libdriver.so.1",), "not the one that nobody asks for"


def test_what_is_named_and_not_used_is_not_followed(libraries: dict[str, Path]) -> None:
    del libraries["c"]
    with pytest.raises(
        BundleError, match=r"liba\.so needs libc9\.so\.1, which is in none of the pinned wheels"
    ):
        closure_of([libraries["a"]], among=libraries.values())
    closure = closure_of([libraries["a"]], among=libraries.values(), versioned=("libc9.so.1",))
    assert closure.unused == {"liba.so": ("libc9.so.1",)}
    assert "libc9.so.1" not in closure.files


def test_what_is_used_is_not_called_unused(tmp_path: Path) -> None:
    c = versioned(tmp_path, "libc9.so.1", "c9")
    user = compile_library(tmp_path / "libuser.so", "int c9(void); int u(void) { return c9(); }\n", c)
    assert unused_libraries(user, among=("libc9.so.1",)) == ()
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(user.read_bytes()[:100])
    with pytest.raises(BundleError, match="not a valid ELF file"):
        unused_libraries(damaged, among=("libc9.so.1",))


def test_libraries_that_a_file_opens_by_itself(libraries: dict[str, Path]) -> None:
    assert opened_libraries(libraries["a"]) == ("libplugin.so.7",)
    assert opened_libraries(libraries["driver"]) == ()
