"""Which toolchain compiles for a platform: zig, which builds for any glibc on any machine, or the system's gcc."""

import os

from edgepack.context import BuildContext
from edgepack.errors import UsageError
from edgepack.files.elf import version_key
from edgepack.foundry.toolchains.gcc import Gcc, gcc_program
from edgepack.foundry.toolchains.toolchain import NativeToolchain
from edgepack.foundry.toolchains.zig import Zig, zig_program
from edgepack.records.target import Platform

DEFAULT_GLIBC = "2.28"
ARCHITECTURES = ("x86_64", "aarch64")


def choose(platform: Platform, *, glibc: str | None = None, context: BuildContext) -> NativeToolchain:
    """The toolchain for a platform: zig, or what ``EDGEPACK_TOOLCHAIN`` says. Raises ``MissingToolError``.

    Without ``glibc`` it compiles for 2.28 also where the platform has a newer one: one kernel archive then serves them all.
    """
    if platform.os != "linux" or platform.arch not in ARCHITECTURES:
        raise UsageError(f"no runtime can be built for {platform.os} on {platform.arch}")
    floor = glibc or min(platform.glibc or DEFAULT_GLIBC, DEFAULT_GLIBC, key=version_key)
    name = os.environ.get("EDGEPACK_TOOLCHAIN", "zig")
    if name == "zig":
        program = zig_program()
        version = context.run([program, "version"]).strip()
        return Zig(program=program, version=version, arch=platform.arch, glibc=floor)
    if name == "gcc":
        program = gcc_program(platform.arch)
        version = context.run([program, "-dumpfullversion"]).strip()
        return Gcc(program=program, version=version, arch=platform.arch, glibc=floor)
    raise UsageError(f"EDGEPACK_TOOLCHAIN={name} is no toolchain that edgepack knows", hint="zig or gcc")
