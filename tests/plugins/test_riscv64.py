"""riscv64: what the plugin says of the processor, and that it holds for what zig makes for it."""

import importlib.util
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgepack.errors import FloorError, UsageError
from edgepack.files.elf import architecture, glibc_floor, sound_elf
from edgepack.foundry.link.instructions import check_instructions
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.platforms import find_platform
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.foundry.toolchains.choose import choose
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack_linux.builder import create_builder
from edgepack_riscv64.processor import RISCV64, beyond_rv64gc

needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")


def test_a_target_that_builder_linux_takes(context: HostContext) -> None:
    target = load_plugins().target("linux-riscv64-min")
    assert find_platform(target.platform, load_plugins().extensions("platform")).processor == RISCV64
    create_builder(target, context)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("platform.glibc=2.26", r"glibc 2\.26 on riscv64, which 2\.27 is the first for"),
        ("runtime_glibc=2.26", r"glibc 2\.26 on riscv64, which 2\.27 is the first for"),
        ('platform.isa=["rv64gc"]', "unknown CPU feature: rv64gc on riscv64"),
        ("platform.arch=riscv32", r"linux on riscv32 \(did you mean riscv64\?\)"),
    ],
)
def test_devices_that_are_refused_before_anything_is_fetched(
    context: HostContext, override: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        create_builder(load_plugins().target("linux-riscv64-min", [override]), context)


@pytest.mark.parametrize(
    ("code", "known"),
    [
        (struct.pack("<I", 0x00B50533), True),  # add a0, a0, a1
        (struct.pack("<I", 0x02A5F553), True),  # fadd.d fa0, fa1, fa0
        (struct.pack("<I", 0x100525AF), True),  # lr.w a1, (a0)
        (struct.pack("<H", 0x4501), True),  # c.li a0, 0
        (struct.pack("<I", 0x02008057), False),  # vadd.vv v0, v0, v1
        (struct.pack("<I", 0x20B52533), False),  # sh1add a0, a0, a1
        (struct.pack("<I", 0x60051513), False),  # clz a0, a0
    ],
)
def test_what_not_every_processor_has(code: bytes, known: bool) -> None:
    assert bool(list(beyond_rv64gc(code))) is not known


def test_the_example_in_the_documentation_is_this_processor() -> None:
    page = (Path(__file__).parents[2] / "docs/plugins.md").read_text(encoding="utf-8")
    code = (
        page.partition("## A processor, or another platform")[2].split("```python\n")[1].partition("```")[0]
    )
    example: dict[str, Any] = {}
    exec(code, example)
    (spec,) = example["edgepack_specs"]()
    assert (spec.axis, spec.name) == ("platform", "linux-riscv64")
    assert spec.make().processor == replace(RISCV64, beyond_baseline=None, sysroot=None)


SOURCE = "void twice(float *a, long n) { for (long i = 0; i < n; ++i) a[i] *= 2; }\n"


@pytest.mark.tools("zig", may=("clang", "ld.lld"))
@needs_zig
def test_code_of_a_compiler_s_making_is_read(context: HostContext, tmp_path: Path) -> None:
    device = load_plugins().target("linux-riscv64-min").platform
    toolchain = choose(device, context=context)
    assert toolchain.identity.endswith(", riscv64-linux-gnu.2.28")
    (tmp_path / "a.c").write_text(SOURCE)
    for name, flags in (("baseline", []), ("vectors", ["-march=rv64gcv"])):
        subprocess.run(
            [*toolchain.command("C"), "-O3", "-fPIC", *flags, "-c", tmp_path / "a.c", "-o", tmp_path / "a.o"],
            check=True,
        )
        library = tmp_path / f"{name}.so"
        linked = [toolchain.command("C")[0], "ld.lld", "-m", RISCV64.emulation, "-shared", "-o", str(library)]
        subprocess.run([*linked, tmp_path / "a.o"], check=True)
        assert (architecture(library), glibc_floor(library)) == ("riscv64", None)
    check(tmp_path / "baseline.so")
    with pytest.raises(FloorError, match=r"vectors\.so would need more than RV64GC of every processor"):
        check(tmp_path / "vectors.so")


def check(library: Path) -> None:
    with sound_elf(library) as file:
        (code,) = file.code
    whole = Piece(output=".text", file="a.o", section=".text", size=code.size, address=code.address)
    check_instructions(library, [whole], RISCV64, is_kernel=lambda piece: False)


def test_the_c_library_under_the_emulator_is_pinned() -> None:
    assert RISCV64.sysroot is not None
    assert all(len(package.sha256) == 64 and package.debian for package in RISCV64.sysroot.packages)


@pytest.mark.tools(may=("qemu-riscv64", "qemu-riscv64-static"))
def test_its_emulator_is_found_by_its_name(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "qemu-riscv64"
    program.write_text("#!/bin/sh\necho 'qemu-riscv64 version 10.0.13'\n")
    program.chmod(0o755)
    (tmp_path / "riscv64-linux-gnu/lib").mkdir(parents=True)
    (tmp_path / "riscv64-linux-gnu" / RISCV64.loader.lstrip("/")).touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("edgepack.foundry.proof.emulator.SYSTEM_LIBC", str(tmp_path / "{triple}"))
    found = find_emulator("riscv64", context=context)
    libc = tmp_path / "riscv64-linux-gnu"
    assert (found.name, found.version) == ("qemu", "10.0.13")
    assert found.command("sifive-u54")[1:] == ["-cpu", "sifive-u54", "-L", libc]
