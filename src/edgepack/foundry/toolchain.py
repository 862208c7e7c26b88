"""What the foundry asks of a toolchain: a compiler for one platform, and what comes with it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from edgepack.context import BuildContext
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.patch import Patch
from edgepack.foundry.processor import BranchProtection, Processor
from edgepack.foundry.symbols import Symbols
from edgepack.foundry.units import ProgramSources, Unit


@dataclass(frozen=True, kw_only=True)
class HostLibraries:
    """Symbols that the platform's own libraries offer to link against."""

    files: tuple[Path, ...] = ()
    offered: frozenset[str] = frozenset()
    and_others: bool = False
    """Whether the linker finds further libraries by itself."""


class CLibrary(Protocol):
    """A C library that zig compiles and links for; ``zig`` is its program."""

    @property
    def glibc(self) -> str | None:
        """The oldest glibc of the devices; ``None``: what is linked needs no C library of theirs."""

    @property
    def revision(self) -> str:
        """Changes when what is linked in of it changes; empty: what zig links by the platform's name."""

    @property
    def ends_threads(self) -> bool:
        """Whether it has ``__cxa_thread_atexit_impl``, which destroys what belongs to a thread."""

    @property
    def packs_relocations(self) -> bool:
        """Whether what loads a file knows packed relative relocations (``DT_RELR``)."""

    @property
    def defines(self) -> Sequence[str]:
        """Definitions that libc++'s headers need for it, without ``-D``."""

    def platform(self, processor: Processor) -> str:
        """Platform in zig's words: ``x86_64-linux-gnu.2.28``."""

    def headers(self, processor: Processor) -> Sequence[str]:
        """Folders of its headers below zig's."""

    def libraries(self, zig: Path, platform: str, *, identity: str, context: BuildContext) -> HostLibraries:
        """Libraries to link against. ``platform`` and ``identity`` are the toolchain's."""

    def start(self, zig: Path, platform: str, *, identity: str, context: BuildContext) -> Path:
        """Start code that runs before a program's ``main``."""

    def library_start(
        self, zig: Path, platform: str, *, identity: str, context: BuildContext
    ) -> Sequence[Path]:
        """Start code of every shared library; nothing where the system's own loader begins one."""

    def program_flags(self, processor: Processor) -> Sequence[str]:
        """Flags of lld for a program. Raises ``UsageError`` for what cannot be linked."""

    def library_flags(self, processor: Processor) -> Sequence[str]:
        """Flags of lld for a shared library. Raises ``UsageError`` where there is none."""

    def licenses(self, zig: Path, version: str) -> Mapping[str, Path]:
        """File name → licence text of what of it stands in every program."""


class Toolchain(Protocol):
    """A compiler for one platform: what a kernel archive is compiled with."""

    @property
    def family(self) -> str:
        """Name in the rules of the build settings, e.g. ``zig``."""

    @property
    def version(self) -> str: ...

    @property
    def arch(self) -> str: ...

    @property
    def platform(self) -> str:
        """Platform that it compiles for, e.g. ``x86_64-linux-gnu.2.28`` or ``wasm32``."""

    @property
    def identity(self) -> str:
        """Name of compiler and platform, e.g. ``zig 0.14.1, x86_64-linux-gnu.2.28``; the platform comes last."""

    @property
    def places(self) -> Mapping[str, Path]:
        """Folders of its own by what stands for them in units, e.g. ``@ZIG@``."""

    @property
    def trims(self) -> frozenset[str]:
        """Which of the release's trims it links with."""

    @property
    def patches(self) -> Sequence[Patch]:
        """Patches of its own units and of ONNX Runtime's, after the release's patches."""

    @property
    def exports(self) -> Sequence[str] | None:
        """Symbols that a runtime exports; ``None``: the C API as upstream lists it."""

    def command(self, language: str) -> list[str]:
        """The command that compiles ``C``, ``CXX`` or ``ASM``, without source and output."""

    def cmake_variables(self, folder: Path) -> dict[str, str]:
        """CMake variables that name it; where it is not one program, scripts are written into ``folder``."""

    def environment(self, cache: Path) -> Mapping[str, str] | None:
        """For CMake's trials; what the compiler keeps for itself goes into ``cache``."""

    def units(self, settings: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[Unit]:
        """Units of its own sources that are compiled into the archive; ``settings`` and CMake's ``variables`` are the archive's."""

    def symbols(self, object: Path) -> Symbols:
        """The global symbols of an object file. Raises ``ValueError``."""

    def libraries(self, *, context: BuildContext) -> HostLibraries:
        """Libraries that there are to link against."""

    def licenses(self) -> Mapping[str, Path]:
        """File name → licence text of what it links in."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """Inputs and outputs of one link."""

    objects: Sequence[Path]
    output: Path
    map_file: Path
    log_file: Path
    exports: Sequence[str] = ()
    """Symbols of a shared library or an object; none: a program."""
    required: Sequence[str] = ()
    """Symbols that the linker has to find, and all that they lead to."""
    soname: str = ""
    """Of a shared library; empty: the output's name."""
    symbol_version: str = ""
    """What the exported symbols are versioned by; empty: nothing."""
    libraries: HostLibraries


@runtime_checkable
class ProgramMaker(Protocol):
    """Compiler of a platform that links programs whole and has no ONNX Runtime: another system's linker, another form of file."""

    @property
    def identity(self) -> str:
        """Name of the compiler, the platform, and whatever else of its own goes into a program."""

    def make_program(self, sources: ProgramSources, folder: Path, *, context: BuildContext) -> None:
        """Write the finished file and ``licenses/``. Raises ``UsageError`` for what it does not make, ``ToolError``."""


class NativeToolchain(Toolchain, Protocol):
    """A toolchain that links shared libraries and programs for Linux."""

    @property
    def processor(self) -> Processor: ...

    @property
    def glibc(self) -> str | None:
        """The oldest glibc that what it makes runs on; ``None``: it needs no C library of the device's."""

    @property
    def revision(self) -> str:
        """Changes when what it links in of its own changes; empty: the identity says that."""

    @property
    def cxx_flags(self) -> Sequence[str]:
        """Flags for C++ that is linked with the archive's."""

    @property
    def protection(self) -> BranchProtection | None:
        """Protection that every object is compiled with, where the platform asks for it."""

    @property
    def marks(self) -> frozenset[str]:
        """Marks of a finished file (``files.hardening``)."""

    def driver(self, language: str) -> list[str]:
        """The command that compiles and links a program in one step."""

    def link(self, link: Link, *, context: BuildContext) -> None:
        """Link ``output``, stripped, and write the linker's map. Raises ``ToolError``."""

    def pieces(self, map_file: Path) -> Iterator[Piece]:
        """Pieces of the linker's map; nothing where it cannot be read."""
