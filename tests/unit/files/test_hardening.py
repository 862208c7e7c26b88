"""Whether a program or library is hardened, on real ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from edgepack.errors import BundleError
from edgepack.files.hardening import BUILD_ID, marks_of, require_hardened, weaknesses, without_landing

pytestmark = pytest.mark.tools("gcc", may=("python",))

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


def test_what_a_file_says_of_itself_is_read(tmp_path: Path) -> None:
    plain = linked(tmp_path / "plain", *HARD, "-Wl,--build-id=none", "-Wl,-z,noshstk,-z,noibt")
    assert marks_of(plain) == frozenset()
    with pytest.raises(
        BundleError, match="plain is not hardened: it is not marked build-id; it is not marked shstk"
    ):
        require_hardened(plain, marks=(BUILD_ID, "shstk"))
    named = linked(tmp_path / "named", *HARD, "-Wl,--build-id=sha1", "-Wl,-z,shstk")
    assert marks_of(named) == {BUILD_ID, "shstk"}
    require_hardened(named, marks=(BUILD_ID, "shstk"))
    assert marks_of(linked(tmp_path / "both", *HARD, "-Wl,--build-id=md5", "-Wl,-z,shstk,-z,ibt")) == {
        "shstk",
        "ibt",
    }


CALLED_BY_TABLE = """\
        .globl  _start
_start: bti     c
        ret
called: {landing}
        ret
        .section .data.rel.ro, "aw"
        .quad   called
"""


@pytest.mark.parametrize("landing", ["bti c", "paciasp", "nop"])
def test_a_function_without_a_landing_pad_is_found(tmp_path: Path, landing: str) -> None:
    """The file says that it has them all, and the processor would end it."""
    zig = [sys.executable, "-m", "ziglang"]
    (tmp_path / "code.s").write_text(CALLED_BY_TABLE.format(landing=landing))
    target = ["clang", "-target", "aarch64-linux-gnu", "-mbranch-protection=standard", "-march=armv8.5-a"]
    subprocess.run([*zig, *target, "-c", "code.s", "-o", "code.o"], cwd=tmp_path, check=True)
    words = ["-m", "aarch64linux", "-pie", "-z", "force-bti", "-z", "now", "-o", "program", "code.o"]
    subprocess.run([*zig, "ld.lld", *words], cwd=tmp_path, check=True, capture_output=True)
    program = tmp_path / "program"
    assert marks_of(program) == {"bti"}
    if landing == "nop":
        assert len(without_landing(program)) == 1
        with pytest.raises(BundleError, match="1 of its functions have no landing pad"):
            require_hardened(program, marks=("bti",))
    else:
        assert without_landing(program) == ()
        require_hardened(program, marks=("bti",))
