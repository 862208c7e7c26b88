"""The system's gcc: quick, for tests; what it makes needs a glibc as new as this machine's, and is not trimmed."""

import platform as host
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import MissingToolError
from edgepack.files.hardening import BUILD_ID
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.patch import Patch
from edgepack.foundry.processor import Processor
from edgepack.foundry.symbols import Symbols, symbols
from edgepack.foundry.toolchain import HostLibraries, Link
from edgepack.foundry.toolchains.cmake import cross_compiling
from edgepack.foundry.toolchains.lld import link_flags, run_linker
from edgepack.foundry.units import Unit


@dataclass(frozen=True, kw_only=True)
class Gcc:
    """gcc for one processor of Linux."""

    program: Path
    """g++; what compiles C lies beside it."""
    version: str
    processor: Processor
    glibc: str
    family: str = field(default="gcc", init=False)
    trims: frozenset[str] = field(default=frozenset(), init=False)
    exports: None = field(default=None, init=False)
    cxx_flags: tuple[str, ...] = field(default=(), init=False)
    protection: None = field(default=None, init=False)
    revision: str = field(default="", init=False)
    marks: frozenset[str] = field(default=frozenset({BUILD_ID}), init=False)

    @property
    def arch(self) -> str:
        return self.processor.name

    @property
    def patches(self) -> tuple[Patch, ...]:
        return self.processor.patches

    @property
    def platform(self) -> str:
        return f"{self.processor.triple}.{self.glibc}"

    @property
    def identity(self) -> str:
        return f"{self.family} {self.version}, {self.platform}"

    @property
    def places(self) -> Mapping[str, Path]:
        return {}

    def command(self, language: str) -> list[str]:
        program = str(self.program)
        return [program if language == "CXX" else program.removesuffix("g++") + "gcc", *self.processor.flags]

    def driver(self, language: str) -> list[str]:
        return self.command(language)

    def cmake_variables(self, folder: Path) -> dict[str, str]:
        gcc = self.command("C")[0]
        named = {"CMAKE_C_COMPILER": gcc, "CMAKE_CXX_COMPILER": str(self.program), "CMAKE_ASM_COMPILER": gcc}
        return named | cross_compiling(self.arch)

    def environment(self, cache: Path) -> None:
        return None

    def units(self, settings: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[Unit]:
        return iter(())

    def symbols(self, object: Path) -> Symbols:
        return symbols(object)

    def libraries(self, *, context: BuildContext) -> HostLibraries:
        return HostLibraries(and_others=True)

    def link(self, link: Link, *, context: BuildContext) -> None:
        kind = ["-shared", "-fPIC"] if link.exports else ["-pie"]
        command = [str(self.program), *kind, "-static-libstdc++", "-static-libgcc", "-o", str(link.output)]
        command += [f"-Wl,{flag}" for flag in _joined(link_flags(link, context))]
        run_linker([*command, *map(str, link.objects), "-lm", "-lpthread", "-ldl"], link, context)

    def pieces(self, map_file: Path) -> Iterator[Piece]:
        """Nothing: GNU ld's map is of another form."""
        return iter(())

    def licenses(self) -> Mapping[str, Path]:
        return {}


def gcc_program(processor: Processor) -> Path:
    """g++ for a processor. Raises ``MissingToolError``."""
    if processor.name == host.machine():
        return tools.find("g++")
    name = f"{processor.triple}-g++"
    if not tools.is_installed(name):
        raise MissingToolError(
            f"{name} is not installed", hint=f"apt-get install crossbuild-essential-{processor.debian}"
        )
    return tools.find(name)


def _joined(flags: Sequence[str]) -> list[str]:
    """``-z now`` as ``-z,now``, for the compiler's ``-Wl,``."""
    joined: list[str] = []
    for flag in flags:
        if joined and joined[-1] in ("-z", "-u", "-soname", "--version-script", "-Map"):
            joined[-1] += f",{flag}"
        else:
            joined.append(flag)
    return joined
