"""Whether a program or library is hardened, on real ones."""

import subprocess
from pathlib import Path

import pytest

from edgepack.errors import BundleError
from edgepack.files.hardening import require_hardened, weaknesses

pytestmark = pytest.mark.tools("gcc")

HARD = ("-fPIE", "-pie", "-Wl,-z,relro,-z,now,-z,noexecstack")


def linked(place: Path, *flags: str, code: str = "int main(void) { return 0; }") -> Path:
    command = ["gcc", "-x", "c", "-", "-o", str(place), *flags]
    subprocess.run(command, input=code.encode(), check=True, capture_output=True)
    return place


def test_a_hardened_program_and_library_lack_nothing(tmp_path: Path) -> None:
    assert weaknesses(linked(tmp_path / "program", *HARD)) == ()
    library = linked(tmp_path / "library.so", "-shared", "-fPIC", "-Wl,-z,relro,-z,now,-z,noexecstack")
    assert weaknesses(library) == ()
    require_hardened(library)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-fno-pie", "-no-pie", "-Wl,-z,relro,-z,now"), "no PIE"),
        (("-fPIE", "-pie", "-Wl,-z,norelro,-z,now"), "no RELRO"),
        (("-fPIE", "-pie", "-Wl,-z,relro,-z,lazy"), "no -z now"),
        ((*HARD, "-Wl,-z,execstack"), "its stack can be run"),
    ],
)
def test_what_is_lacking_is_named(tmp_path: Path, flags: tuple[str, ...], words: str) -> None:
    program = linked(tmp_path / "program", *flags)
    assert words in "; ".join(weaknesses(program))
    with pytest.raises(BundleError, match="program is not hardened"):
        require_hardened(program)


def test_code_that_is_written_to_is_named(tmp_path: Path) -> None:
    code = ".text\n.globl f\nf: ret\n.quad g\n"
    (tmp_path / "code.s").write_text(code)
    subprocess.run(
        ["gcc", "-shared", "-nostdlib", "-Wl,-z,notext,-z,now,-z,noexecstack", "-o", tmp_path / "library.so", tmp_path / "code.s"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    assert "text relocations" in "; ".join(weaknesses(tmp_path / "library.so"))
