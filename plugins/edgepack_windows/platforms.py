"""The platform: Linux's objects for x86-64 with musl, which stands on kernel32 in the place of Linux."""

from dataclasses import replace

from edgepack.api import UsageError
from edgepack.api.axes import X86_64, LinuxPlatform, Processor, RuntimeOptions
from edgepack.foundry.program_platform import ProgramPlatform
from edgepack_musl.api import NO_STACK_TRACES
from edgepack_windows.libc import FLAGS, TARGET, Win32Musl
from edgepack_windows.wine import find_wine

PROCESSOR: Processor = replace(
    X86_64,
    triple=TARGET,
    loader="",
    flags=FLAGS,
    variant="kernel32",
    patches=(*X86_64.patches, NO_STACK_TRACES),
)
OBJECTS = LinuxPlatform(processor=PROCESSOR, libc="musl", c_library=Win32Musl())
"""What compiles and links them."""
REFUSAL = "there are no runtime libraries for Windows: each program has its runtime inside"
HINT = "edgepack bundle --target windows-x64"


def windows() -> ProgramPlatform:
    return ProgramPlatform(
        os="windows",
        architectures=("x86_64",),
        release=OBJECTS.release,
        form=OBJECTS.form,
        magic=b"MZ",
        refusal=REFUSAL,
        hint=HINT,
        check=_check,
        toolchain=OBJECTS.toolchain,
        emulator=find_wine,
    )


def _check(options: RuntimeOptions) -> None:
    if options.shared:
        raise UsageError(REFUSAL, hint=HINT)
    if options.glibc:
        raise UsageError("programs for Windows have no glibc", hint="omit it")
    OBJECTS.check(options)
