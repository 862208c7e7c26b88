"""Emscripten as a toolchain of the foundry: zig's clang, of the same LLVM release, with Emscripten's headers and libraries."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from edgepack.api import BuildContext
from edgepack.api.kit import RELEASE, HostLibraries, Patch
from edgepack.foundry.patch import ALLOCATION_PLANNER, PROTOBUF_MESSAGES
from edgepack.foundry.symbols import Symbols
from edgepack.foundry.toolchains.cmake import compiler_script
from edgepack.foundry.toolchains.libcxx import ZIG
from edgepack.foundry.units import Unit
from edgepack_web.foundry.api import DIRECT_API, EXPORTS
from edgepack_web.foundry.cxxruntime import EMSCRIPTEN, LEAN_STREAMS, web_units
from edgepack_web.foundry.emscripten import Emscripten
from edgepack_web.foundry.kernels import kernel_patches
from edgepack_web.foundry.link import offered_symbols
from edgepack_web.foundry.symbols import object_symbols

WEB_RELEASE = RELEASE.with_data(resources.files("edgepack_web.foundry") / "data", partial_indexes=("wasm32",))
"""With how it is compiled for WebAssembly. The symbol index knows what text-embedding models ask for; what it does not
know, the one for x86-64 may."""


@dataclass(frozen=True, kw_only=True)
class EmscriptenToolchain:
    """Emscripten for WebAssembly, for one thread or several."""

    tools: Emscripten
    threads: bool = False
    family: str = field(default="emscripten", init=False)
    arch: str = field(default="wasm32", init=False)
    platform: str = field(default="wasm32", init=False)
    trims: frozenset[str] = field(default=frozenset({PROTOBUF_MESSAGES, ALLOCATION_PLANNER}), init=False)
    exports: Sequence[str] = field(default=EXPORTS, init=False)

    @property
    def version(self) -> str:
        return f"{self.tools.version}, zig {self.tools.zig_version}"

    @property
    def identity(self) -> str:
        return f"{self.family} {self.version}, {self.platform}"

    @property
    def places(self) -> Mapping[str, Path]:
        return {ZIG: self.tools.zig.parent / "lib", EMSCRIPTEN: self.tools.folder}

    @cached_property
    def patches(self) -> Sequence[Patch]:
        return (DIRECT_API, *kernel_patches(), *LEAN_STREAMS)

    def command(self, language: str) -> list[str]:
        """Command line of clang as Emscripten writes it; clang's own headers are where zig has them, after libc++'s and before libc's."""
        headers = self.tools.sysroot / "include"
        folders = [headers / "compat", *([headers / "c++/v1"] if language == "CXX" else [])]
        folders += [self.tools.zig.parent / "lib/include", headers]
        mode = ["--driver-mode=g++"] if language == "CXX" else []
        flags = ["-target", "wasm32-unknown-emscripten", "-DEMSCRIPTEN", "-nostdinc"]
        for folder in folders:
            flags += ["-isystem", str(folder)]
        tuned = ["-mllvm", "-combiner-global-alias-analysis=false", "-mllvm", "-disable-lsr"]
        return [str(self.tools.zig), "clang", *mode, *flags, *tuned]

    def cmake_variables(self, folder: Path) -> dict[str, str]:
        """CMake's own trials end at objects: nothing is linked by it. Emscripten's CMake modules are not needed for that."""
        named: dict[str, str] = {}
        for name, language in (("C_COMPILER", "C"), ("CXX_COMPILER", "CXX"), ("ASM_COMPILER", "C")):
            named[name] = compiler_script(folder / name.lower(), self.command(language))
        for name in ("ar", "ranlib"):
            named[name.upper()] = compiler_script(folder / name, [self.tools.zig, name])
        platform = folder / "modules/Platform/Emscripten.cmake"
        platform.parent.mkdir(parents=True, exist_ok=True)
        platform.write_text("set(UNIX 1)\n")
        return {f"CMAKE_{name}": value for name, value in named.items()} | {
            "CMAKE_SYSTEM_NAME": "Emscripten",
            "CMAKE_SYSTEM_PROCESSOR": self.arch,
            "CMAKE_MODULE_PATH": str(folder / "modules"),
            "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
        }

    def environment(self, cache: Path) -> None:
        return None

    def units(self, settings: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[Unit]:
        threads = variables.get("onnxruntime_ENABLE_WEBASSEMBLY_THREADS") == "ON"
        return web_units(settings["units"]["cxx_runtime"], threads=threads)

    def symbols(self, object: Path) -> Symbols:
        return object_symbols(object)

    def libraries(self, *, context: BuildContext) -> HostLibraries:
        return HostLibraries(offered=offered_symbols(self.tools, threads=self.threads))

    def licenses(self) -> Mapping[str, Path]:
        """Its C and C++ libraries, musl's and LLVM's, and the JavaScript around the module."""
        return {f"emscripten-{self.tools.version}.txt": self.tools.folder.parent / "doc/emscripten/copyright"}
