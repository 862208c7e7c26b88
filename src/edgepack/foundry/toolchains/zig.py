"""zig from PyPI: clang, lld and the sources of libc++, for any C library on any machine."""

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext
from edgepack.errors import MissingToolError
from edgepack.files.hardening import BUILD_ID
from edgepack.foundry.linkmap import Piece, read_link_map
from edgepack.foundry.patch import KERNEL_TABLE, PROTOBUF_MESSAGES, Patch
from edgepack.foundry.processor import BranchProtection, Processor
from edgepack.foundry.symbols import Symbols, symbols
from edgepack.foundry.toolchain import CLibrary, HostLibraries, Link
from edgepack.foundry.toolchains.cmake import compiler_script, cross_compiling
from edgepack.foundry.toolchains.glibc import zig_environment
from edgepack.foundry.toolchains.libcxx import SHADOW_STACK, SMALL_RUNTIME, ZIG, cxx_runtime_units
from edgepack.foundry.toolchains.lld import link_with_lld
from edgepack.foundry.toolchains.protection import protected_start, protection_patches
from edgepack.foundry.units import Unit
from edgepack.tools import install_hint

OF_THE_LINKER = frozenset(
    {"_DYNAMIC", "_GLOBAL_OFFSET_TABLE_", "__dso_handle", "__start___lcxx_override", "__stop___lcxx_override"}
)
_LIBCXX = (
    "_LIBCPP_ABI_NAMESPACE=__1",
    "_LIBCPP_ABI_VERSION=1",
    "_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "_LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS",
    "_LIBCPP_PSTL_BACKEND_SERIAL",
    "_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS",
)


@dataclass(frozen=True, kw_only=True)
class Zig:
    """zig for one processor of Linux."""

    program: Path
    version: str
    processor: Processor
    libc: CLibrary
    protected: bool = False
    family: str = field(default="zig", init=False)
    trims: frozenset[str] = field(default=frozenset({PROTOBUF_MESSAGES, KERNEL_TABLE}), init=False)
    exports: None = field(default=None, init=False)

    @property
    def glibc(self) -> str | None:
        return self.libc.glibc

    @property
    def revision(self) -> str:
        return self.libc.revision

    @property
    def arch(self) -> str:
        return self.processor.name

    @property
    def patches(self) -> tuple[Patch, ...]:
        protection = protection_patches(self.processor, self.protection) if self.protection else ()
        return (*SMALL_RUNTIME, SHADOW_STACK, *self.processor.patches, *protection)

    @property
    def cxx_flags(self) -> tuple[str, ...]:
        protection = self.protection.flags if self.protection else ()
        return ("-fexperimental-relative-c++-abi-vtables", *protection)

    @property
    def protection(self) -> BranchProtection | None:
        return self.processor.protection if self.protected else None

    @property
    def marks(self) -> frozenset[str]:
        own = {self.protection.mark} if self.protection else set()
        return self.processor.marks | own | {BUILD_ID}

    @property
    def platform(self) -> str:
        return self.libc.platform(self.processor)

    @property
    def identity(self) -> str:
        words = (f"{self.family} {self.version}", self.processor.variant, self.platform)
        return ", ".join(filter(None, words))

    @property
    def library_folder(self) -> Path:
        """zig's own headers and sources of libc, libc++ and libc++abi."""
        return self.program.parent / "lib"

    @property
    def places(self) -> Mapping[str, Path]:
        return {ZIG: self.library_folder}

    def command(self, language: str) -> list[str]:
        """zig's clang itself.

        ``zig c++`` keeps frame pointers in optimized code, forbids AVX-512 where upstream's flags name it in clang's
        older words, and stores every object a second time in its own cache.
        """
        mode = ["--driver-mode=g++"] if language == "CXX" else []
        return [
            str(self.program),
            "clang",
            *mode,
            "-target",
            self.processor.triple,
            *self.processor.flags,
            *self._headers(),
        ]

    def _headers(self) -> list[str]:
        """Flags about headers that ``zig c++`` passes to its clang."""
        folders = (
            "libcxx/include",
            "libcxxabi/include",
            "include",
            *self.libc.headers(self.processor),
            f"libc/include/{self.processor.headers}-linux-any",
            "libc/include/any-linux-any",
        )
        flags = ["-nostdinc"]
        for folder in folders:
            flags += ["-isystem", str(self.library_folder / folder)]
        return [*flags, *(f"-D{define}" for define in (*self.libc.defines, *_LIBCXX))]

    def driver(self, language: str) -> list[str]:
        return [str(self.program), "c++" if language == "CXX" else "cc", "-target", self.platform]

    def cmake_variables(self, folder: Path) -> dict[str, str]:
        cc = compiler_script(folder / "cc", self.driver("C"))
        cxx = compiler_script(folder / "c++", self.driver("CXX"))
        variables = {
            "CMAKE_C_COMPILER": cc,
            "CMAKE_CXX_COMPILER": cxx,
            "CMAKE_ASM_COMPILER": cc,
            "CMAKE_AR": compiler_script(folder / "ar", [self.program, "ar"]),
            "CMAKE_RANLIB": compiler_script(folder / "ranlib", [self.program, "ranlib"]),
        }
        return variables | dict(self.processor.cmake) | cross_compiling(self.arch)

    def environment(self, cache: Path) -> Mapping[str, str]:
        return zig_environment(cache)

    def units(self, settings: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[Unit]:
        exceptions = variables.get("onnxruntime_DISABLE_EXCEPTIONS") != "ON"
        return cxx_runtime_units(
            self.library_folder, exceptions=exceptions, ends_threads=self.libc.ends_threads
        )

    def symbols(self, object: Path) -> Symbols:
        return symbols(object)

    def libraries(self, *, context: BuildContext) -> HostLibraries:
        found = self.libc.libraries(self.program, self.platform, identity=self.identity, context=context)
        return replace(found, offered=found.offered | OF_THE_LINKER)

    def link(self, link: Link, *, context: BuildContext) -> None:
        start = self._library_start(context) if link.exports else [self._start(context)]
        link_with_lld(self.program, link, self, self.libc, start=start, context=context)

    def _start(self, context: BuildContext) -> Path:
        """Start code that runs before a program's ``main``."""
        if self.protection:
            return protected_start(
                self.command("ASM"), self.protection, identity=self.identity, context=context
            )
        return self.libc.start(self.program, self.platform, identity=self.identity, context=context)

    def _library_start(self, context: BuildContext) -> Sequence[Path]:
        return self.libc.library_start(self.program, self.platform, identity=self.identity, context=context)

    def pieces(self, map_file: Path) -> Iterator[Piece]:
        return read_link_map(map_file)

    def licenses(self) -> Mapping[str, Path]:
        """LLVM's three libraries in the version that zig has them of, and its own; of the C library what stands in every program."""
        llvm = _llvm_version(self.library_folder / "libcxx/include/__config")
        texts = {
            f"{name}-{llvm}.txt": self.library_folder / folder / "LICENSE.TXT"
            for name, folder in (("libc++", "libcxx"), ("libc++abi", "libcxxabi"), ("libunwind", "libunwind"))
        }
        own = {f"zig-compiler-rt-{self.version}.txt": self.program.parent / "LICENSE"}
        return {**texts, **own, **self.libc.licenses(self.program, self.version)}


def _llvm_version(config: Path) -> str:
    """Version as libc++ says it of itself: 190100 for 19.1.0."""
    said = re.search(r"define _LIBCPP_VERSION (\d+)", config.read_text(encoding="utf-8"))
    number = int(said[1]) if said else 0
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def zig_program() -> Path:
    """The zig of the ziglang package. It keeps a cache in the home folder, or where ``ZIG_GLOBAL_CACHE_DIR`` says."""
    found = importlib.util.find_spec("ziglang")
    for folder in (found.submodule_search_locations or ()) if found else ():
        program = Path(folder) / "zig"
        if program.is_file():
            return program
    raise MissingToolError(
        "zig, the compiler for the runtime, is not installed",
        hint=f"{install_hint('zig')}, or set EDGEPACK_TOOLCHAIN=gcc",
    )
