"""Runtimes for Linux: shared libraries, and what is linked into programs."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import UsageError
from edgepack.files.elf import architecture, is_elf, version_key
from edgepack.foundry.explain.sizes import ELF
from edgepack.foundry.link.reduced_library import SONAME, reduce_runtime
from edgepack.foundry.platform import Emulator, Form, RuntimeOptions
from edgepack.foundry.processor import Processor
from edgepack.foundry.processors.aarch64 import AARCH64
from edgepack.foundry.processors.x86_64 import X86_64
from edgepack.foundry.proof.emulator import find_qemu
from edgepack.foundry.proof.prove import prove, prove_file
from edgepack.foundry.release import Release
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.toolchain import CLibrary, NativeToolchain
from edgepack.foundry.toolchains.choose import require_protection, toolchain_for, zig_for
from edgepack.records.model import PreparedModel
from edgepack.records.operators import Operators
from edgepack.records.runtime import Fit, LevelProof, Levels, RuntimeArtifact
from edgepack.records.target import Platform
from edgepack.verifier.compatibility import try_model


@dataclass(frozen=True, kw_only=True)
class LinuxPlatform:
    """Linux on one kind of processor, compiled for by zig or gcc. A plugin that knows a processor makes one of these."""

    processor: Processor
    os: str = "linux"
    libc: str = "glibc"
    c_library: CLibrary | None = None
    """What zig compiles and links for where that is not the devices' glibc: ``libc`` names it."""
    any_libc: "LinuxPlatform | None" = None
    """What compiles and links libraries that glibc, musl and others load; ``None``: there are none for the processor."""
    release: Release = RELEASE
    form: Form = ELF
    next_step: str = "export ORT_DYLIB_PATH={library}"

    @property
    def architectures(self) -> tuple[str, ...]:
        return (self.processor.name,)

    def check(self, options: RuntimeOptions) -> None:
        if options.threads:
            raise UsageError("--threads is for platforms without: runtimes for linux have threads")
        release = options.release or self.release
        release.feature_levels.check(options.platform.isa, self.processor.name)
        require_protection(self.processor, options.platform)
        if self.c_library and options.shared and not (options.any_libc and self.any_libc):
            self.c_library.library_flags(self.processor)
        glibc, oldest = options.glibc or options.platform.glibc, self.processor.oldest_glibc
        if glibc and self.libc != "glibc":
            raise UsageError(
                f"glibc {glibc} is named for devices with {self.libc}",
                hint="omit it: what is linked for them needs no glibc",
            )
        if glibc and version_key(glibc) < version_key(oldest):
            raise UsageError(
                f"no runtime can be made for glibc {glibc} on {self.processor.name}, which {oldest} is the first for",
                hint=f'--set platform.glibc="{oldest}", or the devices\' own',
            )

    def toolchain(self, options: RuntimeOptions, *, context: BuildContext) -> NativeToolchain:
        if options.any_libc:
            if self.any_libc is None:
                raise UsageError(f"no library for {self.processor.name} is loaded by any C library")
            return self.any_libc.toolchain(replace(options, any_libc=False), context=context)
        if self.c_library:
            return zig_for(self.processor, _platform(options), self.c_library, context=context)
        return toolchain_for(self.processor, _platform(options), context=context)

    def reduce(self, needs: Operators, options: RuntimeOptions, *, context: BuildContext) -> RuntimeArtifact:
        return reduce_runtime(
            needs,
            platform=_platform(options),
            kind=options.kind,
            release=options.release or self.release,
            context=context,
        )

    def recognizes(self, file: Path) -> bool:
        try:
            return is_elf(file) and architecture(file) in (self.processor.name, None)
        except OSError:
            return False

    def prove(
        self, model: PreparedModel, runtime: RuntimeArtifact, *, levels: Levels, context: BuildContext
    ) -> tuple[LevelProof, ...]:
        return prove(model, runtime, levels=levels, context=context)

    def prove_file(
        self, model: Path, library: Path, *, levels: Levels, context: BuildContext
    ) -> tuple[LevelProof, ...]:
        return prove_file(model, library, levels=levels, context=context)

    def try_model(self, library: Path, model: Path, *, context: BuildContext) -> Fit:
        return try_model(library, model, context=context)

    def emulator(self, *, context: BuildContext) -> Emulator:
        return find_qemu(self.processor, context=context)

    def lay(self, runtime: RuntimeArtifact, folder: Path, *, context: BuildContext) -> None:
        """The links that linkers and loaders look for, and the C API's header."""
        (folder / "lib" / runtime.file.name).chmod(0o755)
        for link in (SONAME, "libonnxruntime.so"):
            (folder / "lib" / link).symlink_to(runtime.file.name)
        (folder / "include").mkdir()
        assert runtime.header is not None, "libraries for Linux are made from sources"
        shutil.copyfile(runtime.header, folder / "include" / runtime.header.name)


def _platform(options: RuntimeOptions) -> Platform:
    return replace(options.platform, glibc=options.glibc or options.platform.glibc)


LINUX_X86_64 = LinuxPlatform(processor=X86_64)
LINUX_AARCH64 = LinuxPlatform(processor=AARCH64)
