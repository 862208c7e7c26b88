"""Libraries that every C library loads: musl inside, without the caller's thread pointer."""

import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.any_libc import compiled, nothing_asked
from tests.support.languages import required

from edgepack.errors import BundleError, MissingToolError, UsageError
from edgepack.files.elf_reader import MACHINES, SHT_SYMTAB, UNDEFINED, opened_elf
from edgepack.foundry.link.one_object import keep_global
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.foundry.toolchain import Link
from edgepack.foundry.toolchains.choose import choose, choose_for_library
from edgepack.plugins.context import HostContext
from edgepack.records.target import Platform
from edgepack_musl.any_libc import PAGE, AnyLibc

SUPPORT = Path(__file__).parents[1] / "support"
INSIDE = Path(__file__).parents[2] / "plugins/edgepack_musl/csrc/inside"
CHECKS = ("check_all", "check_threads")
zig = pytest.mark.tools("zig", may=("clang", "ld.lld", "qemu-aarch64"))


@dataclass(frozen=True, kw_only=True)
class Host:
    """Library for a processor, and the beginning of a command that loads it there under glibc."""

    library: Path
    command: Sequence[str | Path]


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_context: HostContext
) -> Host:
    folder = tmp_path_factory.mktemp(request.param)
    device = Platform(os="linux", arch=request.param, glibc="2.28")
    emulator: Sequence[str | Path] = ()
    if request.param != platform.machine():
        try:
            emulator = find_emulator(request.param, context=shared_context).command("max")
        except MissingToolError as error:
            pytest.skip(error.message)
    library = compiled(
        choose_for_library(device, context=shared_context),
        SUPPORT / "any_libc.c",
        folder / "lib.so",
        exports=CHECKS,
        context=shared_context,
    )
    program = compiled(
        choose(device, context=shared_context),
        SUPPORT / "any_libc_main.c",
        folder / "main",
        context=shared_context,
    )
    return Host(library=library, command=[*emulator, program, library])


@zig
def test_many_threads_of_the_callers_have_memory_errno_files_and_threads(host: Host) -> None:
    done = subprocess.run(host.command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.returncode) == ("right\n", 0)


@zig
def test_no_system_call_is_made_that_android_forbids_apps(host: Host) -> None:
    if len(host.command) > 2:
        pytest.skip("qemu makes system calls of its own")
    done = subprocess.run(
        [*host.command, "android"], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout, done.returncode) == ("right\n", 0)


@zig
def test_it_asks_nobody_for_anything(host: Host) -> None:
    nothing_asked(host.library)
    with opened_elf(host.library) as file:
        assert all(segment.align == PAGE for segment in file.loads)


@zig
def test_the_register_that_is_androids_is_not_touched(host: Host) -> None:
    capstone = pytest.importorskip("capstone")
    with opened_elf(host.library) as file:
        if MACHINES[file.machine][0] != "aarch64":
            pytest.skip("of arm64")
        code = b"".join(file.data(section) for section in file.code)
    words = list(capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM).disasm_lite(code, 0))
    assert len(words) > 1000
    assert [word for word in words if re.search(r"\b[wx]18\b", word[3])] == []


@pytest.mark.tools("zig")
def test_processors_without_have_libraries_of_their_own_c_library(context: HostContext) -> None:
    for arch in ("armv7l", "riscv64"):
        device = Platform(os="linux", arch=arch, glibc="2.31")
        made, usual = choose_for_library(device, context=context), choose(device, context=context)
        assert made.identity == usual.identity


def test_it_is_no_c_library_of_programs(context: HostContext) -> None:
    with pytest.raises(UsageError, match="a library, and no program"):
        AnyLibc().program_flags(None)  # type: ignore[arg-type]


PHONE = """processor\t: 0
BogoMIPS\t: 38.40
Features\t: fp asimd evtstrm aes crc32 atomics {}
CPU implementer\t: 0x41
i8mm asimddp
"""


@pytest.mark.tools("gcc", may=("cc", "cc1", "as", "collect2", "ld"))
@pytest.mark.parametrize(
    ("words", "bits"),
    [("asimddp i8mm bf16", "1 1"), ("asimddp", "1 0"), ("asimddp2 xi8mm", "0 0"), ("", "0 0")],
)
def test_what_linux_says_of_a_phones_processor(tmp_path: Path, words: str, bits: str) -> None:
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "arm64.h"\nint main(int count, char **words) {\n'
        "size_t first, second;\nread_features(words[count - 1], &first, &second);\n"
        'return printf("%d %d", first == DOTPROD, second == I8MM) < 0;\n}\n'
    )
    flags: list[str | Path] = ["-Wall", "-Wextra", "-Werror", f"-I{INSIDE}", "-o", tmp_path / "main"]
    subprocess.run([required("gcc"), *flags, tmp_path / "main.c"], check=True)
    said = subprocess.run(
        [tmp_path / "main", PHONE.format(words)], capture_output=True, text=True, check=True
    )
    assert said.stdout == bits


CALLER = """
#include <stdio.h>
const char *check_all(unsigned), *check_threads(void);
void *__malloc_alloc_meta(void) { return 0; }
int check(void) { return 1; }
int main(void) { return puts(check_all(1) || check_threads() ? "wrong" : "right"), check() != 1 || __malloc_alloc_meta() != 0; }
"""


@pytest.mark.tools("zig", "gcc", may=("clang", "ld.lld", "cc", "as", "ld"))
def test_one_object_has_no_symbols_but_those_that_it_is_for(
    tmp_path: Path, shared_context: HostContext
) -> None:
    toolchain = choose_for_library(Platform(os="linux", arch="x86_64"), context=shared_context)
    part, whole = tmp_path / "part.o", tmp_path / "whole.o"
    flags = ("-O1", "-fPIC", "-fno-builtin", "-fvisibility=hidden", "-ffunction-sections")
    subprocess.run([*toolchain.command("C"), *flags, "-c", SUPPORT / "any_libc.c", "-o", part], check=True)
    link = Link(
        objects=[part],
        output=whole,
        map_file=tmp_path / "map",
        log_file=tmp_path / "log",
        exports=CHECKS,
        libraries=toolchain.libraries(context=shared_context),
    )
    toolchain.link(link, context=shared_context)
    keep_global(whole, CHECKS)
    with opened_elf(whole) as file:
        seen = {name: section for name, _, section in file.symbols(SHT_SYMTAB, local=False)}
    assert {name for name, section in seen.items() if section != UNDEFINED} == set(CHECKS)
    assert {name for name, section in seen.items() if section == UNDEFINED} == set()
    if platform.machine() == "x86_64":
        (tmp_path / "main.c").write_text(CALLER)
        program = tmp_path / "main"
        subprocess.run([required("gcc"), tmp_path / "main.c", whole, "-o", program], check=True)
        assert subprocess.run([program], capture_output=True, check=False).stdout == b"right\n"


def test_symbols_are_not_hidden_in_what_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "text.o").write_bytes(b"\x7fELF and no more")
    with pytest.raises(BundleError, match=r"text\.o is not an object"):
        keep_global(tmp_path / "text.o", ())
