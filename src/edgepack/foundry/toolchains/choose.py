"""Which toolchain compiles for a platform: zig, which builds for any glibc on any machine, or the system's gcc."""

import os
from dataclasses import replace
from typing import cast

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError, UsageError
from edgepack.files.elf import version_key
from edgepack.foundry.platform import RuntimeOptions
from edgepack.foundry.platforms import find_platform
from edgepack.foundry.processor import Processor
from edgepack.foundry.processors.registry import OWN
from edgepack.foundry.toolchain import CLibrary, NativeToolchain
from edgepack.foundry.toolchains.gcc import Gcc, gcc_program
from edgepack.foundry.toolchains.glibc import Glibc
from edgepack.foundry.toolchains.zig import Zig, zig_program
from edgepack.records.target import Platform

DEFAULT_GLIBC = "2.28"
TOOLCHAIN = "EDGEPACK_TOOLCHAIN"


def choose_for_library(platform: Platform, *, context: BuildContext) -> NativeToolchain:
    """The toolchain for a library that any C library loads; where there is none for the processor, that for the platform's own."""
    musl = replace(platform, libc="musl", glibc=None)
    try:
        found = find_platform(musl, context.extensions("platform"))
        options = RuntimeOptions(platform=musl, any_libc=True)
        return cast("NativeToolchain", found.toolchain(options, context=context))
    except UsageError:
        return choose(platform, context=context)


def choose(platform: Platform, *, glibc: str | None = None, context: BuildContext) -> NativeToolchain:
    """The toolchain for a platform of Linux: zig, what ``EDGEPACK_TOOLCHAIN`` says, or what a plugin's platform compiles with.

    Without ``glibc`` it compiles for 2.28 also where the platform has a newer one: one kernel archive then serves them all.
    Raises ``UsageError`` for a platform that nobody compiles for, and ``MissingToolError``.
    """
    if platform.os == "linux" and platform.libc in (None, "glibc") and platform.arch in OWN:
        return toolchain_for(OWN[platform.arch], platform, glibc=glibc, context=context)
    found = find_platform(platform, context.extensions("platform"))
    if found.processor is not None and found.libc == "glibc":
        return toolchain_for(found.processor, platform, glibc=glibc, context=context)
    options = RuntimeOptions(platform=platform, glibc=glibc)
    return cast("NativeToolchain", found.toolchain(options, context=context))


def compiled_otherwise(platform: Platform, *, context: BuildContext) -> dict[str, str]:
    """The toolchain for a platform, where the user has asked for another than the usual one."""
    named = os.environ.get(TOOLCHAIN, "zig")
    if named == "zig":
        return {}
    try:
        return {"toolchain": choose(platform, context=context).identity}
    except EdgepackError:
        return {"toolchain": named}  # The platform has one of its own, or none.


def toolchain_for(
    processor: Processor, platform: Platform, *, glibc: str | None = None, context: BuildContext
) -> NativeToolchain:
    floor = glibc or min(platform.glibc or DEFAULT_GLIBC, DEFAULT_GLIBC, key=version_key)
    name = os.environ.get(TOOLCHAIN, "zig")
    require_protection(processor, platform, toolchain=name)
    if name == "zig":
        return zig_for(processor, platform, Glibc(glibc=floor), context=context)
    if name == "gcc":
        program = gcc_program(processor)
        version = context.run([program, "-dumpfullversion"]).strip()
        return Gcc(program=program, version=version, processor=processor, glibc=floor)
    raise UsageError(f"EDGEPACK_TOOLCHAIN={name} is not a known toolchain", hint="zig or gcc")


def zig_for(
    processor: Processor, platform: Platform, libc: CLibrary, *, context: BuildContext
) -> NativeToolchain:
    """zig, with a C library. Raises ``MissingToolError``."""
    program = zig_program()
    return Zig(
        program=program,
        version=context.run([program, "version"]).strip(),
        processor=processor,
        libc=libc,
        protected=platform.branch_protection,
    )


def require_protection(processor: Processor, platform: Platform, *, toolchain: str = "zig") -> None:
    """Raise ``UsageError`` where a platform asks for branch protection that there is none of."""
    if platform.branch_protection and (toolchain != "zig" or processor.protection is None):
        by = "" if toolchain == "zig" else f" with {toolchain}"
        raise UsageError(
            f"there is no branch protection for {processor.name}{by}",
            hint="leave platform.branch_protection out; docs/security.md says what every program has",
        )
