"""The platform: Linux's objects for x86-64 with musl, which stands on kernel32 in the place of Linux."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from edgepack.api import (
    BuildContext,
    Levels,
    Operators,
    PreparedModel,
    RuntimeArtifact,
    UsageError,
)
from edgepack.api.axes import X86_64, Emulator, LinuxPlatform, Processor, RuntimeOptions
from edgepack.api.kit import Fit, Form, LevelProof, Release, Toolchain
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
MAGIC = b"MZ"


def _no_libraries() -> NoReturn:
    raise UsageError(
        "there are no runtime libraries for Windows: each program has its runtime inside",
        hint="edgepack bundle --target windows-x64",
    )


@dataclass(frozen=True, kw_only=True)
class WindowsPlatform:
    """Windows on x86-64: programs, no libraries by themselves."""

    os: str = "windows"
    libc: None = None
    architectures: tuple[str, ...] = ("x86_64",)
    processor: None = None
    release: Release = OBJECTS.release
    form: Form = OBJECTS.form
    next_step: str = "{library}"

    def check(self, options: RuntimeOptions) -> None:
        if options.shared:
            _no_libraries()
        if options.glibc:
            raise UsageError("programs for Windows have no glibc", hint="omit it")
        OBJECTS.check(options)

    def toolchain(self, options: RuntimeOptions, *, context: BuildContext) -> Toolchain:
        return OBJECTS.toolchain(options, context=context)

    def reduce(self, needs: Operators, options: RuntimeOptions, *, context: BuildContext) -> RuntimeArtifact:
        _no_libraries()

    def recognizes(self, file: Path) -> bool:
        try:
            with file.open("rb") as stream:
                return stream.read(2) == MAGIC
        except OSError:
            return False

    def prove(
        self, model: PreparedModel, runtime: RuntimeArtifact, *, levels: Levels, context: BuildContext
    ) -> tuple[LevelProof, ...]:
        _no_libraries()

    def prove_file(
        self, model: Path, library: Path, *, levels: Levels, context: BuildContext
    ) -> tuple[LevelProof, ...]:
        _no_libraries()

    def try_model(self, library: Path, model: Path, *, context: BuildContext) -> Fit:
        _no_libraries()

    def emulator(self, *, context: BuildContext) -> Emulator:
        return find_wine(context=context)

    def lay(self, runtime: RuntimeArtifact, folder: Path, *, context: BuildContext) -> None:
        _no_libraries()


def windows() -> WindowsPlatform:
    return WindowsPlatform()
