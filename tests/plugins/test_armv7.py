"""32-bit ARM: what the plugin says of the processor, and that it holds for what zig makes for it."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from edgepack.errors import UsageError
from edgepack.files.elf import architecture
from edgepack.foundry.platforms import find_platform
from edgepack.foundry.toolchains.choose import choose
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.target import Platform
from edgepack_armv7.processor import ARMV7L
from edgepack_linux import builder as linux
from edgepack_static.builder import create_builder

needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")
DEVICE = Platform(os="linux", arch="armv7l", glibc="2.28")


def test_targets_for_it_are_taken(context: HostContext) -> None:
    host = load_plugins()
    assert find_platform(DEVICE, host.extensions("platform")).processor == ARMV7L
    create_builder(host.target("linux-x86-static", ["platform.arch=armv7l"]), context)
    linux.create_builder(host.target("linux-armv7-min"), context)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("platform.arch=armv6l", r"linux on armv6l \(did you mean armv7l\?\)"),
        ('platform.isa=["neon"]', "unknown CPU feature: neon on armv7l"),
        ("platform.branch_protection=true", "no branch protection for armv7l"),
    ],
)
def test_devices_that_are_refused_before_anything_is_fetched(
    context: HostContext, override: str, said: str
) -> None:
    overrides = ["platform.arch=armv7l", override]
    with pytest.raises(UsageError, match=said):
        create_builder(load_plugins().target("linux-x86-static", overrides), context)


SOURCE = """\
#include <sys/types.h>
int divided(int a, int b) { return a / b; }
float first(float a, float b) { return a; }
_Static_assert(sizeof(off_t) == 8, "files may have 2 GB and more");
_Static_assert(sizeof(void *) == 4, "");
"""


@pytest.mark.tools("zig", may=("clang", "ld.lld"))
@needs_zig
def test_code_is_that_of_a_cortex_a7_with_hard_float(context: HostContext, tmp_path: Path) -> None:
    toolchain = choose(DEVICE, context=context)
    assert toolchain.identity.endswith(", arm-linux-gnueabihf.2.28")
    assert "-mcpu=cortex-a7" not in toolchain.driver("C"), "zig cc calls it cortex_a7"
    (tmp_path / "a.c").write_text(SOURCE)
    command = [*toolchain.command("C"), "-O2", "-fPIC", "-c", "a.c", "-o", "a.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert architecture(tmp_path / "a.o") == "armv7l"
    needs = toolchain.symbols(tmp_path / "a.o").needs
    assert "__aeabi_idiv" not in needs, "a Cortex-A7 divides by itself"
    # The first number comes in s0, where it goes: nothing is done but to return (bx lr, in Thumb).
    assert b"\x70\x47" in (tmp_path / "a.o").read_bytes()


def test_the_c_library_under_the_emulator_is_pinned() -> None:
    assert ARMV7L.sysroot is not None
    assert all(len(package.sha256) == 64 and package.debian for package in ARMV7L.sysroot.packages)
