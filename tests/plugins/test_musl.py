"""musl: what the plugin refuses, what it links with, and its own copies of memory."""

import importlib.util
import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgepack.cli import cli
from edgepack.errors import MissingToolError, TargetError, UsageError
from edgepack.foundry.platforms import find_platform
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.foundry.toolchain import Link, NativeToolchain
from edgepack.foundry.toolchains.choose import choose
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.target import Platform
from edgepack_linux.builder import create_builder
from edgepack_musl import platforms
from edgepack_musl.libc import Musl
from edgepack_musl.platforms import NO_STACK_TRACES

TARGETS = ("linux-x86-musl", "linux-arm64-musl", "linux-armv7-musl")
CSRC = Path(__file__).parents[2] / "plugins/edgepack_musl/csrc"
DRIVERS = Path(__file__).parents[1] / "support"
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
@pytest.mark.parametrize(
    ("arch", "triple"),
    [
        ("x86_64", "x86_64-linux-musl"),
        ("aarch64", "aarch64-linux-musl"),
        ("armv7l", "arm-linux-musleabihf"),
    ],
)
def test_the_toolchain_is_zig_for_musl(
    context: HostContext, monkeypatch: pytest.MonkeyPatch, arch: str, triple: str
) -> None:
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "zig")
    toolchain = chosen(context, arch)
    assert toolchain.identity.endswith(f", {triple}") and toolchain.glibc is None
    command = toolchain.command("CXX")
    assert "-D_LIBCPP_HAS_MUSL_LIBC" in command and not any("glibc" in word.lower() for word in command)
    assert toolchain.revision


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What makes programs with musl for a kind of processor, as bundles have them, and what runs them."""

    toolchain: NativeToolchain
    emulator: Sequence[str | Path]
    context: HostContext

    def program(self, folder: Path, source: str, *flags: str) -> Path:
        made, output = folder / "main.o", folder / "main"
        compile: list[str | Path] = [
            *self.toolchain.command("C"),
            "-O1",
            "-fno-builtin",
            *flags,
            "-c",
            DRIVERS / source,
        ]
        subprocess.run([*compile, "-o", made], check=True)
        libraries = self.toolchain.libraries(context=self.context)
        link = Link(
            objects=[made],
            output=output,
            map_file=folder / "link.map",
            log_file=folder / "link.log",
            libraries=libraries,
        )
        self.toolchain.link(link, context=self.context)
        return output

    def run(self, program: Path, text: str = "") -> bytes:
        command = [*self.emulator, program]
        return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


PLATFORMS = {"x86_64": platforms.x86_64, "aarch64": platforms.aarch64, "armv7l": platforms.armv7l}
EMULATED = {"x86_64": "max", "aarch64": "max", "armv7l": "cortex-a7"}


@pytest.fixture(scope="module", params=sorted(PLATFORMS))
def machine(request: pytest.FixtureRequest, shared_context: HostContext) -> Machine:
    toolchain = chosen(shared_context, request.param)
    emulator: Sequence[str | Path] = ()
    if request.param != platform.machine():
        try:
            found = find_emulator(request.param, context=shared_context)
        except MissingToolError as error:
            pytest.skip(error.message)
        emulator = found.command(EMULATED[request.param])
    return Machine(toolchain=toolchain, emulator=emulator, context=shared_context)


Says = Callable[[str], bytes]


@pytest.fixture(scope="module")
def memory(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Says:
    """A program that does with memory what lines say, and says what is there then."""
    program = machine.program(tmp_path_factory.mktemp("memory"), "memory_main.c")
    return lambda text: machine.run(program, text)


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


AS_MADE = pytest.mark.tools("zig", may=("clang", "ld.lld", "qemu-aarch64", "qemu-arm"))


@AS_MADE
@needs_zig
@pytest.mark.parametrize("function", ["memmove", "memcpy"])
def test_bytes_are_moved_wherever_they_overlap(memory: Says, function: str) -> None:
    before = bytes(at * 7 % 251 for at in range(7000))
    shifts = (3100,) if function == "memcpy" else (0, 1, 3, 15, 16, 17, 31, 64, 65, 128, 200)
    cases = [
        (start, target, size)
        for size in SIZES
        for shift in shifts
        for start, target in ((5, 5 + shift), (5 + shift, 5))
    ]
    said = memory("".join(f"{function} 7000 {start} {target} {size}\n" for start, target, size in cases))
    assert len(said) == 7000 * len(cases)
    for at, (start, target, size) in enumerate(cases):
        after = bytearray(before)
        after[target : target + size] = before[start : start + size]
        assert said[7000 * at : 7000 * (at + 1)] == after, (size, start, target)


@AS_MADE
@needs_zig
def test_bytes_are_compared_as_unsigned_numbers(memory: Says) -> None:
    cases = [(size, at) for size in range(1, 40) for at in range(size)]
    assert memory("".join(f"compare {size} {at}\n" for size, at in cases)) == b"<>=>" * len(cases)


@AS_MADE
@needs_zig
def test_bytes_are_set(memory: Says) -> None:
    cases = [(start, size) for size in (*SIZES, 2047, 2048, 4000) for start in (0, 1, 7, 15)]
    said = memory("".join(f"memset 4100 {start} {0x1F0} {size}\n" for start, size in cases))
    for at, (start, size) in enumerate(cases):
        expected = b"\x01" * start + b"\xf0" * size + b"\x01" * (4100 - start - size)
        assert said[4100 * at : 4100 * (at + 1)] == expected, (start, size)


@pytest.mark.tools("gcc", may=("cc", "ld", "as"))
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler on this machine")
def test_freed_blocks_are_used_again_and_never_twice(tmp_path: Path) -> None:
    renamed = [f"-D{name}=own_{name}" for name in ("malloc", "free", "calloc", "realloc")]
    hardened = ["-O1", "-g", "-fno-builtin", "-pthread"]
    subprocess.run(
        ["gcc", *hardened, *renamed, "-c", CSRC / "malloc.c", "-o", tmp_path / "malloc.o"], check=True
    )
    driver = DRIVERS / "malloc_main.c"
    subprocess.run(["gcc", *hardened, driver, tmp_path / "malloc.o", "-o", tmp_path / "driver"], check=True)
    done = subprocess.run([tmp_path / "driver"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "right\n")


@pytest.mark.slow
@AS_MADE
@needs_zig
def test_freed_blocks_are_used_again_over_musl_s_own(machine: Machine, tmp_path: Path) -> None:
    assert machine.run(machine.program(tmp_path, "malloc_main.c", "-DAS_LINKED")) == b"right\n"


def test_what_is_compiled_for_32_bits_changes_nothing_for_64() -> None:
    """Kernel archives, which compile for ten minutes, are found by it."""
    made = {arch: make().c_library for arch, make in PLATFORMS.items()}
    assert made["x86_64"] == made["aarch64"] == Musl()
    assert isinstance(made["armv7l"], Musl) and made["armv7l"].revision != Musl().revision
