"""musl: what the plugin refuses, what it links with, and its own copies of memory."""

import ctypes
import importlib.util
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgepack.cli import cli
from edgepack.errors import TargetError, UsageError
from edgepack.foundry.platforms import find_platform
from edgepack.foundry.toolchains.choose import choose
from edgepack.foundry.toolchains.toolchain import NativeToolchain
from edgepack.foundry.toolchains.zig import zig_program
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.target import Platform
from edgepack_linux.builder import create_builder
from edgepack_musl.libc import FLAGS, Musl
from edgepack_musl.platforms import NO_STACK_TRACES

TARGETS = ("linux-x86-musl", "linux-arm64-musl")
CSRC = Path(__file__).parents[2] / "plugins/edgepack_musl/csrc"
needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_that_builder_linux_takes(context: HostContext, name: str) -> None:
    target = load_plugins().target(name)
    found = find_platform(target.platform, load_plugins().extensions("platform"))
    assert (found.libc, found.architectures) == ("musl", (target.platform.arch,))
    create_builder(target, context)


NO_LIBRARY = "there are no shared libraries for devices with musl"


@pytest.mark.parametrize(
    ("overrides", "said", "todo"),
    [
        (["library=true"], NO_LIBRARY, "--set runner=native without library"),
        (["runner=pyinstaller"], NO_LIBRARY, "--set runner=native without library"),
        (["runtime_glibc=2.28"], "glibc 2.28 is named for devices with musl", "omit it"),
        (["platform.glibc=2.28"], "platform.glibc is for devices with glibc, not with musl", "omit platform"),
        (["runtime=stock"], "no wheel of ONNX Runtime is for linux on x86_64 with musl", "runtime=minimal"),
        (["platform.branch_protection=true"], "no branch protection for x86_64", "leave platform.branch"),
        (["platform.arch=riscv64"], "linux on riscv64 with musl", "a plugin can bring another platform"),
    ],
)
def test_what_is_refused_before_anything_is_fetched(
    context: HostContext, overrides: list[str], said: str, todo: str
) -> None:
    with pytest.raises((UsageError, TargetError)) as caught:
        create_builder(load_plugins().target(TARGETS[0], overrides), context)
    assert said in caught.value.message and todo in (caught.value.hint or "")


def test_a_library_by_itself_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "lib"
    made = CliRunner().invoke(cli, ["runtime", "lib", "--target", TARGETS[0], "--output", str(place)])
    assert isinstance(made.exception, UsageError) and NO_LIBRARY in made.exception.message
    assert not place.exists()


def test_stack_traces_are_included_for_by_no_header_that_musl_lacks() -> None:
    before = "#include <a.h>\n#include <execinfo.h>\n#include <vector>\n"
    assert NO_STACK_TRACES.must_find[0].search(before)
    assert NO_STACK_TRACES.rewrite is not None
    assert "execinfo" not in NO_STACK_TRACES.rewrite(before, None)  # type: ignore[arg-type]


def chosen(context: HostContext, arch: str) -> NativeToolchain:
    return choose(Platform(os="linux", arch=arch, libc="musl"), context=context)


@pytest.mark.tools("zig")
@needs_zig
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_the_toolchain_is_zig_for_musl(
    context: HostContext, monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "zig")
    toolchain = chosen(context, arch)
    assert toolchain.identity.endswith(f", {arch}-linux-musl") and toolchain.glibc is None
    command = toolchain.command("CXX")
    assert "-D_LIBCPP_HAS_MUSL_LIBC" in command and not any("glibc" in word.lower() for word in command)
    assert toolchain.revision == Musl().revision != ""


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """memory.c as a library of this machine, whose functions are asked of it alone."""
    folder, zig = tmp_path_factory.mktemp("memory"), str(zig_program())
    compiler = [zig, "clang", "-target", f"{platform.machine()}-linux-musl", "-nostdinc"]
    headers = f"-isystem{Path(zig).parent / 'lib/include'}"
    flags = [flag for flag in FLAGS if flag != "-fno-sanitize=all"]
    subprocess.run(
        [*compiler, headers, *flags, "-c", CSRC / "memory.c", "-o", folder / "memory.o"], check=True
    )
    subprocess.run([zig, "ld.lld", "-shared", "-o", folder / "memory.so", folder / "memory.o"], check=True)
    return ctypes.CDLL(str(folder / "memory.so"))


SIZES = (
    *range(68),
    96,
    127,
    128,
    129,
    130,
    143,
    144,
    145,
    192,
    193,
    255,
    256,
    257,
    300,
    511,
    512,
    1000,
    2048,
    3000,
)


@pytest.mark.tools(may=("zig", "clang", "ld.lld"))
@needs_zig
@pytest.mark.parametrize("function", ["memmove", "memcpy"])
def test_bytes_are_moved_wherever_they_overlap(memory: ctypes.CDLL, function: str) -> None:
    move = memory[function]
    move.argtypes, move.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_void_p
    before = bytes(at * 7 % 251 for at in range(7000))
    far = function == "memcpy"
    for size in SIZES:
        for shift in (3100,) if far else (0, 1, 3, 15, 16, 17, 31, 64, 65, 128, 200):
            for start, target in ((5, 5 + shift), (5 + shift, 5)):
                buffer = ctypes.create_string_buffer(before, len(before))
                place = ctypes.addressof(buffer)
                assert move(place + target, place + start, size) == place + target
                after = bytearray(before)
                after[target : target + size] = before[start : start + size]
                assert buffer.raw == after, (size, start, target)


@pytest.mark.tools(may=("zig", "clang", "ld.lld"))
@needs_zig
def test_bytes_are_compared_as_unsigned_numbers(memory: ctypes.CDLL) -> None:
    for size in range(1, 40):
        for at in range(size):
            one, other = bytearray(b"\x7f" * size), bytearray(b"\x7f" * size)
            other[at] = 0x80
            other[at + 1 :] = bytes(size - at - 1)
            assert (
                memory.memcmp(bytes(one), bytes(other), size)
                < 0
                < memory.memcmp(bytes(other), bytes(one), size)
            )
            assert (
                memory.memcmp(bytes(one), bytes(other), at)
                == 0
                != memory.bcmp(bytes(one), bytes(other), size)
            )


@pytest.mark.tools("gcc", may=("cc", "ld", "as"))
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler on this machine")
def test_freed_blocks_are_used_again_and_never_twice(tmp_path: Path) -> None:
    renamed = [f"-D{name}=own_{name}" for name in ("malloc", "free", "calloc", "realloc")]
    hardened = ["-O1", "-g", "-fno-builtin", "-pthread"]
    subprocess.run(
        ["gcc", *hardened, *renamed, "-c", CSRC / "malloc.c", "-o", tmp_path / "malloc.o"], check=True
    )
    driver = Path(__file__).parents[1] / "support/malloc_main.c"
    subprocess.run(["gcc", *hardened, driver, tmp_path / "malloc.o", "-o", tmp_path / "driver"], check=True)
    done = subprocess.run([tmp_path / "driver"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "right\n")


@needs_zig
def test_bytes_are_set(memory: ctypes.CDLL) -> None:
    memory.memset.argtypes, memory.memset.restype = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], None
    for size in (*SIZES, 2047, 2048, 4000):
        for start in (0, 1, 7, 15):
            buffer = ctypes.create_string_buffer(b"\x01" * 4100, 4100)
            memory.memset(ctypes.addressof(buffer) + start, 0x1F0, size)
            assert buffer.raw == b"\x01" * start + b"\xf0" * size + b"\x01" * (4100 - start - size)
