"""Native files for other devices: zig makes small ones for every processor and C library."""

import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from edgepack.bundles.floor import require_compatible_elf
from edgepack.errors import BundleError, FloorError
from edgepack.files.elf import architecture, c_library, glibc_floor, read_needs
from edgepack.foundry.toolchains.zig import zig_program
from edgepack.records.target import Platform

pytestmark = [
    pytest.mark.tools("zig"),
    pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed"),
]

HELLO = '__attribute__((visibility("default"))) int answer(void) { return 42; }\n'
START = "void _start(void) { for (;;); }\n"
RISCV64 = Platform(os="linux", arch="riscv64", glibc="2.28")

Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A file of zig's clang and lld, without zig's own C library, which takes it minutes to make."""

    def make(triple: str, emulation: str, *options: str, source: str = HELLO, name: str = "embed") -> Path:
        (tmp_path / "a.c").write_text(source)
        zig, folder = zig_program(), tmp_path / "bundle"
        folder.mkdir(exist_ok=True)
        command: list[str | Path] = [
            zig,
            "clang",
            "-target",
            triple,
            "-fPIC",
            "-c",
            tmp_path / "a.c",
            "-o",
            tmp_path / "a.o",
        ]
        subprocess.run(command, check=True)
        linked: list[str | Path] = [
            zig,
            "ld.lld",
            "-m",
            emulation,
            *options,
            "-o",
            folder / name,
            tmp_path / "a.o",
        ]
        subprocess.run(linked, check=True)
        return folder / name

    return make


def loaded_by(loader: str) -> tuple[str, ...]:
    return ("-pie", "-dynamic-linker", loader)


@pytest.mark.parametrize(
    ("loader", "libc"),
    [
        ("/lib/ld-linux-riscv64-lp64d.so.1", "glibc"),
        ("/lib/ld-musl-riscv64.so.1", "musl"),
        ("/system/bin/linker64", None),
    ],
)
def test_a_program_says_its_c_library_by_its_loader(made: Made, loader: str, libc: str | None) -> None:
    program = made("riscv64-linux-gnu", "elf64lriscv", *loaded_by(loader), source=START)
    assert (architecture(program), c_library(program), glibc_floor(program)) == ("riscv64", libc, None)


@pytest.mark.parametrize(
    ("named", "libc"), [("libc.so.6", "glibc"), ("libc.so", "musl"), ("libc.musl-riscv64.so.1", "musl")]
)
def test_a_library_says_it_by_what_it_needs(made: Made, tmp_path: Path, named: str, libc: str) -> None:
    other = made("riscv64-linux-gnu", "elf64lriscv", "-shared", "-soname", named, name="libother.so")
    library = made(
        "riscv64-linux-gnu",
        "elf64lriscv",
        "-shared",
        str(other),
        source="int answer(void); int f(void) { return answer(); }\n",
    )
    assert c_library(library) == libc


def test_what_is_static_runs_on_both(made: Made) -> None:
    program = made("riscv64-linux-gnu", "elf64lriscv", source=START)
    assert c_library(program) is None
    for libc in ("glibc", "musl"):
        require_compatible_elf(program.parent, Platform(os="linux", arch="riscv64", libc=libc))


@pytest.mark.parametrize(
    ("options", "floor"),
    [
        (("-static", "-pie", "--no-dynamic-linker"), None),
        (loaded_by("/lib64/ld-linux-x86-64.so.2"), "2.36"),
        (("-shared",), "2.36"),
    ],
)
def test_packed_relocations_are_the_loader_s_where_there_is_one(
    made: Made, options: tuple[str, ...], floor: str | None
) -> None:
    source = f'{START}static int a; __attribute__((visibility("default"))) int *p = &a;\n'
    file = made(
        "x86_64-linux-gnu",
        "elf_x86_64",
        *options,
        "--no-gc-sections",
        "--pack-dyn-relocs=relr",
        "-Bsymbolic",
        source=source,
    )
    assert read_needs(file).packed_relocations is (floor is not None)
    assert glibc_floor(file) == floor


@pytest.mark.parametrize(
    ("loader", "device", "said"),
    [
        (
            "/lib/ld-musl-riscv64.so.1",
            RISCV64,
            "embed is linked against musl, the target's devices have glibc",
        ),
        (
            "/lib/ld-linux-riscv64-lp64d.so.1",
            Platform(os="linux", arch="riscv64", libc="musl"),
            "embed is linked against glibc, the target's devices have musl",
        ),
        (
            "/lib/ld-linux-riscv64-lp64d.so.1",
            Platform(os="linux", arch="x86_64"),
            "embed is for riscv64, the target's devices are x86_64",
        ),
    ],
)
def test_a_program_for_other_devices(made: Made, loader: str, device: Platform, said: str) -> None:
    program = made("riscv64-linux-gnu", "elf64lriscv", *loaded_by(loader), source=START)
    with pytest.raises(FloorError) as caught:
        require_compatible_elf(program.parent, device)
    assert caught.value.message == said


def test_a_program_for_these_devices(made: Made) -> None:
    loader = loaded_by("/lib/ld-linux-riscv64-lp64d.so.1")
    program = made("riscv64-linux-gnu", "elf64lriscv", *loader, source=START)
    require_compatible_elf(program.parent, RISCV64)


@pytest.mark.parametrize(
    ("run_path", "strange"),
    [
        ("/home/pi/python/lib", "'/home/pi/python/lib'"),
        ("$ORIGIN:/tmp/lib", "'/tmp/lib'"),
        ("$ORIGIN:", "''"),
        ("lib", "'lib'"),
        ("$ORIGINAL", r"'\$ORIGINAL'"),
        ("/usr/../tmp", "'/usr/../tmp'"),
        ("/libx", "'/libx'"),
        ("$ORIGIN/lib:${ORIGIN}:$ORIGIN/../../nvidia/lib", None),
        ("/usr/lib/vendor", None),
    ],
)
def test_a_program_that_looks_for_libraries_in_a_folder_that_may_be_anybodys(
    made: Made, run_path: str, strange: str | None
) -> None:
    folder = made("x86_64-linux-gnu", "elf_x86_64", "-shared", "-rpath", run_path).parent
    if strange is None:
        require_compatible_elf(folder, Platform(os="linux", arch="x86_64"))
        return
    with pytest.raises(BundleError, match=f"embed looks for its libraries in {strange} first") as error:
        require_compatible_elf(folder, Platform(os="linux", arch="x86_64"))
    assert "patchelf --remove-rpath embed" in str(error.value.hint)
