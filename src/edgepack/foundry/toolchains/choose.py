"""The compilers: zig from PyPI, which builds for any glibc on any machine, or the system's gcc."""

from __future__ import annotations

import importlib.util
import os
import platform as host
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import MissingToolError, UsageError
from edgepack.records.target import Platform

DEFAULT_GLIBC = "2.28"
ARCHITECTURES = ("x86_64", "aarch64")
INSTALL = "pip install 'edgepack[foundry]'"


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """A compiler for one platform."""

    family: Literal["zig", "gcc", "emscripten"]
    version: str
    arch: str
    glibc: str
    """Oldest C library that what it makes runs on."""
    program: Path
    """zig itself, or g++."""
    sysroot: Path | None = None
    """Emscripten's headers and libraries."""

    @property
    def identity(self) -> str:
        """e.g. ``zig 0.14.1, x86_64-linux-gnu.2.28``."""
        if self.family == "emscripten":
            return f"{self.family} {self.version}, {self.arch}"
        return f"{self.family} {self.version}, {self.arch}-linux-gnu.{self.glibc}"

    @property
    def library_folder(self) -> Path:
        """zig's own headers and sources of libc, libc++ and libc++abi."""
        return self.program.parent / "lib"


def emscripten_folder(toolchain: Toolchain) -> Path | None:
    """Where Emscripten is, above its sysroot."""
    return toolchain.sysroot.parents[1] if toolchain.sysroot else None


def choose(platform: Platform, *, glibc: str | None = None, context: BuildContext) -> Toolchain:
    """The toolchain for a platform: zig, or what ``EDGEPACK_TOOLCHAIN`` says. Raises ``MissingToolError``.

    Without ``glibc`` it compiles for 2.28 also where the platform has a newer one: one kernel archive then serves them all.
    """
    if platform.os != "linux" or platform.arch not in ARCHITECTURES:
        raise UsageError(f"no runtime can be built for {platform.os} on {platform.arch}")
    floor = glibc or min(platform.glibc or DEFAULT_GLIBC, DEFAULT_GLIBC, key=_version)
    family = os.environ.get("EDGEPACK_TOOLCHAIN", "zig")
    if family == "zig":
        program = zig_program()
        version = context.run([program, "version"]).strip()
        return Toolchain(family="zig", version=version, arch=platform.arch, glibc=floor, program=program)
    if family == "gcc":
        program = _gcc(platform.arch)
        version = context.run([program, "-dumpfullversion"]).strip()
        return Toolchain(family="gcc", version=version, arch=platform.arch, glibc=floor, program=program)
    raise UsageError(f"EDGEPACK_TOOLCHAIN={family} is no toolchain that edgepack knows", hint="zig or gcc")


def _version(glibc: str) -> tuple[int, ...]:
    return tuple(int(number) for number in glibc.split("."))


def zig_program() -> Path:
    """The zig of the ziglang package."""
    found = importlib.util.find_spec("ziglang")
    for folder in (found.submodule_search_locations or ()) if found else ():
        program = Path(folder) / "zig"
        if program.is_file():
            return program
    raise MissingToolError(
        "zig, which compiles the runtime, is not installed", hint=f"{INSTALL}, or set EDGEPACK_TOOLCHAIN=gcc"
    )


def _gcc(arch: str) -> Path:
    return tools.find("g++" if arch == host.machine() else f"{arch}-linux-gnu-g++")


def compiler(toolchain: Toolchain, language: str) -> list[str]:
    """The command that compiles C, C++ or assembly, without source and output."""
    if toolchain.family == "gcc":
        program = str(toolchain.program)
        return [program if language == "CXX" else program.removesuffix("g++") + "gcc"]
    command = [str(toolchain.program), "clang", *(["--driver-mode=g++"] if language == "CXX" else [])]
    if toolchain.family == "emscripten":
        return [*command, *_emscripten_flags(toolchain, language)]
    return [*command, "-target", f"{toolchain.arch}-linux-gnu", *zig_headers(toolchain)]


def _emscripten_flags(toolchain: Toolchain, language: str) -> list[str]:
    """What Emscripten tells its clang; clang's own headers are where zig has them, after libc++'s and before libc's."""
    assert toolchain.sysroot is not None
    headers = toolchain.sysroot / "include"
    folders = [headers / "compat", *([headers / "c++/v1"] if language == "CXX" else [])]
    folders += [toolchain.library_folder / "include", headers]
    flags = ["-target", "wasm32-unknown-emscripten", "-DEMSCRIPTEN", "-nostdinc"]
    for folder in folders:
        flags += ["-isystem", str(folder)]
    return [*flags, "-mllvm", "-combiner-global-alias-analysis=false", "-mllvm", "-disable-lsr"]


def zig_headers(toolchain: Toolchain) -> list[str]:
    """What ``zig c++`` tells its clang about headers.

    zig's clang is called directly: ``zig c++`` keeps frame pointers in optimized code, forbids AVX-512 where
    upstream's flags name it in clang's older words, and stores every object a second time in its own cache.
    """
    library = toolchain.library_folder
    cpu = "x86" if toolchain.arch == "x86_64" else toolchain.arch
    folders = [
        "libcxx/include",
        "libcxxabi/include",
        "include",
        f"libc/include/{toolchain.arch}-linux-gnu",
        "libc/include/generic-glibc",
        f"libc/include/{cpu}-linux-any",
        "libc/include/any-linux-any",
    ]
    flags = ["-nostdinc"]
    for folder in folders:
        flags += ["-isystem", str(library / folder)]
    minor = toolchain.glibc.split(".")[1]
    return [*flags, f"-D__GLIBC_MINOR__={minor}", *(f"-D{define}" for define in _LIBCXX)]


_LIBCXX = (
    "_LIBCPP_ABI_NAMESPACE=__1",
    "_LIBCPP_ABI_VERSION=1",
    "_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "_LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS",
    "_LIBCPP_PSTL_BACKEND_SERIAL",
    "_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS",
)


def cmake_compilers(toolchain: Toolchain, folder: Path) -> dict[str, str]:
    """CMake variables that name the toolchain; where it is not one program, scripts are written into ``folder``."""
    if toolchain.family == "gcc":
        gcc = compiler(toolchain, "C")[0]
        named = {"C_COMPILER": gcc, "CXX_COMPILER": str(toolchain.program), "ASM_COMPILER": gcc}
    elif toolchain.family == "emscripten":
        return _cmake_for_emscripten(toolchain, folder)
    else:
        target = f"{toolchain.arch}-linux-gnu.{toolchain.glibc}"
        cc = _script(folder / "cc", [toolchain.program, "cc", "-target", target])
        cxx = _script(folder / "c++", [toolchain.program, "c++", "-target", target])
        ar = _script(folder / "ar", [toolchain.program, "ar"])
        ranlib = _script(folder / "ranlib", [toolchain.program, "ranlib"])
        named = {"C_COMPILER": cc, "CXX_COMPILER": cxx, "ASM_COMPILER": cc, "AR": ar, "RANLIB": ranlib}
    variables = {f"CMAKE_{name}": value for name, value in named.items()}
    if toolchain.family == "zig" and toolchain.arch == "aarch64":
        # Upstream's check of the compiler does not get past `zig cc`, which has other words for -march; the compiler that
        # is used knows both.
        variables |= {"HAS_ARM64_BFLOAT16": "ON", "HAS_ARM64_FLOAT16": "ON"}
    if toolchain.arch != host.machine():
        variables |= {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": toolchain.arch}
    return variables


def _cmake_for_emscripten(toolchain: Toolchain, folder: Path) -> dict[str, str]:
    """CMake's own trials end at objects: nothing is linked by it. Emscripten's CMake modules are not needed for that."""
    named: dict[str, str] = {}
    for name, language in (("C_COMPILER", "C"), ("CXX_COMPILER", "CXX"), ("ASM_COMPILER", "C")):
        named[name] = _script(folder / name.lower(), list(compiler(toolchain, language)))
    for name in ("ar", "ranlib"):
        named[name.upper()] = _script(folder / name, [toolchain.program, name])
    platform = folder / "modules/Platform/Emscripten.cmake"
    platform.parent.mkdir(parents=True, exist_ok=True)
    platform.write_text("set(UNIX 1)\n")
    return {f"CMAKE_{name}": value for name, value in named.items()} | {
        "CMAKE_SYSTEM_NAME": "Emscripten",
        "CMAKE_SYSTEM_PROCESSOR": toolchain.arch,
        "CMAKE_MODULE_PATH": str(folder / "modules"),
        "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
    }


def zig_environment(cache: Path) -> Mapping[str, str]:
    """Where zig keeps the C library stubs that it makes."""
    return {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}


def _script(path: Path, command: list[str | Path]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n')
    path.chmod(0o755)
    return str(path)
