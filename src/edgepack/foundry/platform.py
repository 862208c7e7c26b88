"""A platform: devices that runtimes can be made for, and how those are compiled, made, proved, tried and explained."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from edgepack.context import BuildContext
from edgepack.files.elf import Layout
from edgepack.foundry.processor import Processor
from edgepack.foundry.release import Release
from edgepack.foundry.toolchain import Toolchain
from edgepack.records.model import PreparedModel
from edgepack.records.operators import Operators
from edgepack.records.runtime import Fit, LevelProof, Levels, RuntimeArtifact, RuntimeKind
from edgepack.records.target import Platform

DEFAULT_PLATFORM = Platform(os="linux", arch="x86_64", glibc="2.28")


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """Device and options that a runtime is made for."""

    platform: Platform = DEFAULT_PLATFORM
    kind: RuntimeKind = "minimal"
    glibc: str | None = None
    """The oldest C library, where it is named in the place of the platform's."""
    threads: bool = False
    """Where a platform has runtimes with and without."""
    shared: bool = False
    """As a shared library, or for one of one's own; otherwise linked into a program."""
    any_libc: bool = False
    """As a shared library without a runtime, which asks the C library of whoever loads it for nothing."""
    ml: bool = False
    """With the kernels of ai.onnx.ml."""
    release: Release | None = None
    """Where another than the platform's own is named."""

    @property
    def features(self) -> tuple[str, ...]:
        """Features as ``open_archive`` takes them."""
        return (*(("ml",) if self.ml else ()), *(("threads",) if self.threads else ()))


class Emulator(Protocol):
    """Runs programs for another processor."""

    @property
    def name(self) -> str:
        """Name in reports, e.g. ``qemu``."""

    @property
    def version(self) -> str: ...

    def command(self, processor: str) -> list[str | Path]:
        """Beginning of a program's command line, to be run as on this processor of the emulator's."""


@runtime_checkable
class LibrarySystem(Emulator, Protocol):
    """Runs programs of another system, and what calls a library there."""

    def library_caller(self, *, context: BuildContext) -> Path:
        """A program that makes a bundle's vectors by the library that its first word names, of lines as ``proof/data/call_libembed.c`` has
        them. Raises ``ToolError``.
        """


@dataclass(frozen=True, kw_only=True)
class Form:
    """How the files of a form are laid out, and what their bytes outside of objects are called."""

    layout: Callable[[Path], Layout]
    """A file's sections. Raises ``BundleError``."""
    headers: str
    padding: str
    """Between sections; empty: there is none."""
    alignment: str
    """Within sections."""
    areas: Mapping[str, str] = field(default_factory=dict)
    """Library of the platform's → the area that it counts as."""


class RuntimePlatform(Protocol):
    """ONNX Runtimes for devices of one kind: operating system, C library, processors.

    A plugin registers one as ``Spec(axis="platform")``; ``make`` takes no arguments. Whether it is one for a target's
    devices is read off ``os``, ``libc`` and ``architectures``, and asked of ``check``, before anything is fetched.
    """

    @property
    def os(self) -> str:
        """Name of the system as targets have it (``platform.os``)."""

    @property
    def libc(self) -> str | None:
        """The devices' C library, ``glibc`` or ``musl``; ``None``: programs link none that targets name."""

    @property
    def architectures(self) -> Sequence[str]:
        """The processors, as targets name them."""

    @property
    def processor(self) -> Processor | None:
        """Processor of Linux that it is for; ``None`` for others than Linux."""

    @property
    def release(self) -> Release:
        """The release that it builds, with its own data."""

    @property
    def form(self) -> Form:
        """How files of its runtimes are laid out."""

    @property
    def next_step(self) -> str:
        """Next step of a person with a finished runtime, a line with ``{library}`` for its file."""

    def check(self, options: RuntimeOptions) -> None:
        """Raise ``UsageError`` for what there are no runtimes of: kinds, a C library that is too old, instruction sets."""

    def toolchain(self, options: RuntimeOptions, *, context: BuildContext) -> Toolchain:
        """Toolchain that kernel archives are compiled with. Raises ``MissingToolError``."""

    def reduce(self, needs: Operators, options: RuntimeOptions, *, context: BuildContext) -> RuntimeArtifact:
        """A runtime with the kernels and types of ``needs`` and no others."""

    def recognizes(self, file: Path) -> bool:
        """Whether a file is a runtime of this platform, by its first bytes; a file that cannot be read is none."""

    def prove(
        self, model: PreparedModel, runtime: RuntimeArtifact, *, levels: Levels, context: BuildContext
    ) -> tuple[LevelProof, ...]:
        """Run a model on a runtime; raises ``ProofError`` for other vectors than the stock library's."""

    def prove_file(
        self, model: Path, library: Path, *, levels: Levels, context: BuildContext
    ) -> tuple[LevelProof, ...]:
        """Proves existing files."""

    def try_model(self, library: Path, model: Path, *, context: BuildContext) -> Fit:
        """Whether a library runs a model, found by running it. Raises ``BundleError`` where that cannot be tried."""

    def emulator(self, *, context: BuildContext) -> Emulator:
        """Emulator of its programs where they do not run by themselves. Raises ``MissingToolError`` when it cannot be had."""

    def lay(self, runtime: RuntimeArtifact, folder: Path, *, context: BuildContext) -> None:
        """Lay what belongs to the library and its companions, which are in ``folder/lib`` already: links, headers."""
