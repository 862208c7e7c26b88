"""A tree of a few files with tables as ONNX Runtime's, and a release room for it: what the foundry makes of it takes a second.

Each kernel gives a number, and ``ToyRun`` their sum: what a library answers says which kernels are in it.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from edgepack.files.store import key_of
from edgepack.foundry.compile.archive import KernelArchive, open_archive
from edgepack.foundry.compile.plan import COMMANDS, CONFIGURED
from edgepack.foundry.patch import Patch
from edgepack.foundry.release import Release
from edgepack.foundry.releases.ort_1_21.dispatch import DISPATCH_PATCH, DispatchTable
from edgepack.foundry.releases.ort_1_21.levels import LEVELS
from edgepack.foundry.releases.ort_1_21.registrations import kernels_in, registration_patch
from edgepack.foundry.releases.ort_1_21.typecontrol import OVERRIDES, TYPE_CONTROL_PATCH
from edgepack.foundry.sources.tree import SourceTree
from edgepack.foundry.toolchain import NativeToolchain
from edgepack.foundry.toolchains.zig import Zig
from edgepack.plugins.context import HostContext

KERNEL = "ONNX_OPERATOR_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, {since}, {name})"
GIVES = {
    "Add": "1",
    "Mul": "10",
    "Cast": "100 * Allowed<Cast>::count",
    "MatMul": "MlasGemm()",
    "MaxPool": "MlasPool()",
}
SINCE = {"Add": 14, "Mul": 14, "Cast": 13, "MatMul": 13, "MaxPool": 12}
BEFORE = {
    "Cast": (
        '#include "core/providers/op_kernel_type_control.h"\n'
        "ORT_SPECIFY_OP_KERNEL_ARG_DEFAULT_TYPES(kCpuExecutionProvider, kOnnxDomain, Cast, Input, 0, float, int64_t);\n"
    ),
    "MatMul": "int MlasGemm();\n",
    "MaxPool": "int MlasPool();\n",
}


def _kernel_source(name: str) -> str:
    macro = KERNEL.format(since=SINCE[name], name=name)
    return (
        '#include "core/framework/kernel.h"\n'
        f"{BEFORE.get(name, '')}namespace onnxruntime {{\nclass {macro};\n"
        f"int Unused{name}() {{ return 7; }}\n"
        f"static int Run() {{ return {GIVES[name]}; }}\n"
        f"template <> KernelCreateInfo BuildKernelCreateInfo<{macro}>() {{ return {{Run}}; }}\n}}\n"
    )


def _provider_source() -> str:
    macros = [KERNEL.format(since=SINCE[name], name=name) for name in GIVES]
    classes = "".join(f"class {macro};\n" for macro in macros)
    rows = "".join(f"      BuildKernelCreateInfo<{macro}>,\n" for macro in macros)
    return (
        f'#include "core/framework/kernel.h"\nnamespace onnxruntime {{\n{classes}'
        "template <> KernelCreateInfo BuildKernelCreateInfo<void>() { return {nullptr}; }\n"
        "int RunKernels() {\n  static KernelCreateInfo (*const table[])() = {\n"
        f"      BuildKernelCreateInfo<void>,\n{rows}  }};\n  int sum = 0;\n"
        "  for (auto make : table)\n    if (auto info = make(); info.run) sum += info.run();\n"
        "  return sum;\n}\n}\n"
    )


FILES = {
    "core/framework/kernel.h": (
        "#pragma once\nnamespace onnxruntime {\nstruct KernelCreateInfo { int (*run)(); };\n"
        "template <typename T> KernelCreateInfo BuildKernelCreateInfo();\n}\n"
        "#define ONNX_OPERATOR_KERNEL_CLASS_NAME(provider, domain, ver, name) provider##_##name##_##domain##_ver##ver\n"
    ),
    "core/providers/op_kernel_type_control.h": (
        "#pragma once\nusing int64_t = long;\nstruct Cast;\n"
        "template <typename Op> struct Default;\ntemplate <typename... T> constexpr int Count = sizeof...(T);\n"
        "template <typename Op> struct Allowed { static constexpr int count = Default<Op>::count; };\n"
        "#define ORT_SPECIFY_OP_KERNEL_ARG_DEFAULT_TYPES(provider, domain, op, way, index, ...) \\\n"
        "  template <> struct Default<op> { static constexpr int count = Count<__VA_ARGS__>; }\n"
        "#define ORT_SPECIFY_OP_KERNEL_ARG_ALLOWED_TYPES(domain, op, way, index, ...) \\\n"
        "  template <> struct Allowed<op> { static constexpr int count = Count<__VA_ARGS__>; }\n"
        f'#include "{OVERRIDES}"\n'
    ),
    OVERRIDES: "// @@insertion_point_begin(allowed_types)@@\n// @@insertion_point_end(allowed_types)@@\n",
    "core/mlas/lib/mlasi.h": (
        "#pragma once\nint MlasGemmKernelSse();\nint MlasPoolKernelSse();\n"
        "struct MLAS_PLATFORM { MLAS_PLATFORM(void); int (*GemmKernel)(); int (*PoolKernel)(); };\n"
        "MLAS_PLATFORM& GetMlasPlatform();\n"
    ),
}
UNITS = {
    "onnxruntime_session/core/session/toy_api.cc": (
        "namespace onnxruntime { int RunKernels(); }\n"
        'extern "C" __attribute__((visibility("default"))) int ToyRun(void) { return onnxruntime::RunKernels(); }\n'
        'extern "C" __attribute__((visibility("default"))) int ToyInside(void) { return 3; }\n'
    ),
    "onnxruntime_providers/core/providers/cpu/cpu_execution_provider.cc": _provider_source(),
    **{f"onnxruntime_providers/core/providers/cpu/{name.lower()}.cc": _kernel_source(name) for name in GIVES},
    "onnxruntime_mlas/core/mlas/lib/platform.cpp": (
        '#include "core/mlas/lib/mlasi.h"\nMLAS_PLATFORM::MLAS_PLATFORM(\n    void\n    )\n{\n'
        "    this->GemmKernel = MlasGemmKernelSse;\n    this->PoolKernel = MlasPoolKernelSse;\n}\n"
        "static MLAS_PLATFORM Platform;\nMLAS_PLATFORM& GetMlasPlatform() { return Platform; }\n"
    ),
    "onnxruntime_mlas/core/mlas/lib/gemm.cpp": (
        '#include "core/mlas/lib/mlasi.h"\nint MlasGemm() {\n  return GetMlasPlatform().GemmKernel();\n}\n'
    ),
    "onnxruntime_mlas/core/mlas/lib/pool.cpp": (
        '#include "core/mlas/lib/mlasi.h"\nint MlasPool() {\n  return GetMlasPlatform().PoolKernel();\n}\n'
    ),
    "onnxruntime_mlas/core/mlas/lib/gemm_kernel.cpp": '#include "core/mlas/lib/mlasi.h"\nint MlasGemmKernelSse() { return 1000; }\n',
    "onnxruntime_mlas/core/mlas/lib/pool_kernel.cpp": '#include "core/mlas/lib/mlasi.h"\nint MlasPoolKernelSse() { return 5; }\n',
}
SOURCES = """\
version = "0.1"
parts = {}
[tools.protoc]
version = "1"
arch = "x86_64"
program = "protoc"
libraries = ""
packages = []
"""
BUILD = """\
[cmake]
[kinds.minimal]
[units]
skip_targets = []
exporting = ["*/toy_api.cc"]
[[units.flags]]
match = "*"
flags = ["-O1", "-fPIC", "-std=c++17", "-ffunction-sections", "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables"]
[link]
trivial = []
[link.readers]
"""
PATCHES = (
    registration_patch("core/providers/cpu/cpu_execution_provider.cc"),
    TYPE_CONTROL_PATCH,
    DISPATCH_PATCH,
)


@dataclass(frozen=True, kw_only=True)
class ToyZig(Zig):
    """zig, where no C++ runtime is part of the archive."""

    patches: tuple[Patch, ...] = field(default=(), init=False)

    def units(self, settings: object, variables: object) -> Any:
        return iter(())


def toy_release(data: Path, patches: tuple[Patch, ...] = PATCHES) -> Release:
    """The room of the release 0.1, whose data files are in ``data``."""
    data.mkdir(exist_ok=True)
    (data / "sources.toml").write_text(SOURCES)
    (data / "build.toml").write_text(BUILD)
    return Release(
        version="0.1",
        data=(data,),
        overlay=(),
        patches=patches,
        api_symbols="symbols.txt",
        possible=lambda onnxruntime, kind, needs: needs,
        kernels=kernels_in,
        table=DispatchTable(),
        feature_levels=LEVELS,
    )


def toy_archive(
    toolchain: NativeToolchain, release: Release, folder: Path, *, context: HostContext
) -> KernelArchive:
    """The archive of the tree in ``folder``; CMake's part is played: its compile commands are written down."""
    tree = SourceTree(folder=folder, catalogue=release.catalogue, key=key_of(UNITS), digests={})
    files = FILES | {name.partition("/")[2]: text for name, text in UNITS.items()}
    for name, text in files.items():
        path = tree.onnxruntime / "onnxruntime" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tree.onnxruntime / release.api_symbols).write_text("ToyRun\n")

    def configure(tree: SourceTree, build: Path, **_: object) -> None:
        build.mkdir(parents=True)
        root = tree.onnxruntime / "onnxruntime"
        entries = []
        for name in UNITS:
            target, source = name.split("/", 1)
            place = f"{build}/CMakeFiles/{target}.dir/{source}.o"
            entries.append({"file": f"{root}/{source}", "command": f"c++ -I{root}", "output": place})
        (build / COMMANDS).write_text(json.dumps(entries))
        (build / CONFIGURED).write_text("")

    with (
        mock.patch("edgepack.foundry.compile.archive.source_tree", lambda *_, **__: tree),
        mock.patch("edgepack.foundry.compile.plan.configure", configure),
    ):
        return open_archive(kind="minimal", toolchain=toolchain, release=release, context=context)
