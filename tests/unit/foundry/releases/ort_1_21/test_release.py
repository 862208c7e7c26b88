"""ONNX Runtime 1.21's patches: for which runtimes, of which units, and which of them need a linker that can do without."""

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from tests.support.small_archive import request

from edgepack.foundry.patch import ALLOCATION_PLANNER, KERNEL_TABLE, PROTOBUF_MESSAGES
from edgepack.foundry.releases.registry import RELEASE
from edgepack.operators.config import parse_config
from edgepack_web.foundry.toolchain import WEB_RELEASE

PATCHES = {patch.name: patch for patch in (*RELEASE.overlay, *RELEASE.patches)}
READS_MESSAGES = "_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi"


def test_patches_have_names_of_their_own() -> None:
    assert all(PATCHES) and len(PATCHES) == len(RELEASE.overlay) + len(RELEASE.patches)


@pytest.mark.parametrize(
    ("unit", "names"),
    [
        (
            "onnxruntime_mlas/x/core/mlas/lib/platform.cpp",
            {"MLAS's table of kernels", "instruction sets of x86_64", "instruction sets of aarch64"},
        ),
        ("onnxruntime_framework/x/core/framework/allocation_planner.cc", {"sizes of elements by number"}),
        ("onnx_proto/x/onnx/onnx-ml.pb.cc", {"protobuf messages that are neither read nor written"}),
        ("onnxruntime_common/core/common/helper.cc", {"what failed checks call"}),
        (
            "onnxruntime_providers/onnxruntime/onnxruntime/core/providers/cpu/cpu_execution_provider.cc",
            {"rows of cpu_execution_provider.cc"},
        ),
        (
            "onnxruntime_providers/onnxruntime/onnxruntime/contrib_ops/cpu/cpu_contrib_kernels.cc",
            {"rows of cpu_contrib_kernels.cc"},
        ),
        ("onnxruntime_mlas/x/core/mlas/lib/sgemm.cpp", set()),
    ],
)
def test_which_patches_change_a_unit(unit: str, names: set[str]) -> None:
    assert {name for name, patch in PATCHES.items() if patch.matches(unit)} == names
    for name in names:
        assert unit.endswith(PATCHES[name].file)


def test_headers_have_no_units() -> None:
    assert {patch.file for patch in PATCHES.values() if not patch.units} == {
        "core/common/common.h",
        "core/common/logging/macros.h",
        "core/providers/op_kernel_type_control_overrides.inc",
    }
    assert [patch.file for patch in PATCHES.values() if patch.readers] == [
        "core/providers/op_kernel_type_control_overrides.inc"
    ], "the others change all units"


def test_sources_that_name_all_kernels_are_linked_in_any_case() -> None:
    assert {patch.name for patch in PATCHES.values() if patch.root} == {
        "rows of cpu_execution_provider.cc",
        "rows of cpu_contrib_kernels.cc",
    }


def test_patches_that_only_some_toolchains_link_with() -> None:
    assert {patch.name: patch.trim for patch in PATCHES.values() if patch.trim} == {
        "MLAS's table of kernels": KERNEL_TABLE,
        "instruction sets of x86_64": KERNEL_TABLE,
        "instruction sets of aarch64": KERNEL_TABLE,
        "protobuf messages that are neither read nor written": PROTOBUF_MESSAGES,
        "sizes of elements by number": ALLOCATION_PLANNER,
    }


def test_patches_for_some_runtimes_alone() -> None:
    def without(**changes: Any) -> set[str]:
        return {name for name, patch in PATCHES.items() if not patch.applies(request(**changes))}

    isa = {"instruction sets of x86_64", "instruction sets of aarch64"}
    assert without() == isa
    assert without(isa=("avx2",)) == {"instruction sets of aarch64"}
    assert without(isa=("dotprod",), arch="aarch64") == {"instruction sets of x86_64"}
    messages = {"protobuf messages that are neither read nor written"}
    assert without(asked=frozenset({READS_MESSAGES})) == isa | messages
    assert without(asked=frozenset({"malloc"})) == isa


def test_what_a_library_is_linked_with_otherwise_is_in_its_key() -> None:
    changed = PATCHES["sizes of elements by number"].change
    assert "TypeFromProto" in changed.partition(" -> ")[0]
    assert "TensorTypeFromONNXEnum" in changed.partition(" -> ")[2]


def test_of_which_runtimes_shipped_indexes_know_only_a_part() -> None:
    assert RELEASE.partial_indexes == frozenset()
    assert WEB_RELEASE.partial_indexes == {"wasm32"}
    assert RELEASE.api_symbols == "onnxruntime/core/providers/cpu/symbols.txt"


def test_the_release_is_the_one_that_converts_models() -> None:
    """A file that one release writes may be unreadable for another's reduced library."""
    assert RELEASE.version == RELEASE.catalogue.version == onnxruntime.__version__
    assert RELEASE.catalogue.parts["onnxruntime"].version == RELEASE.version
    assert RELEASE.build_settings("linux")["cmake"]
    for kind, arch in (("minimal", "x86_64"), ("minimal", "aarch64"), ("minimal-extended", "x86_64")):
        assert RELEASE.index_files(kind, arch)


def test_a_release_answers_for_its_own_tables(tmp_path: Path) -> None:
    needs = parse_config("com.microsoft;1;BiasGelu")
    row = "ONNX_OPERATOR_KERNEL_CLASS_NAME(kCpuExecutionProvider, kMSDomain, 1, BiasGelu)"
    (symbol,) = RELEASE.kernels([f"BuildKernelCreateInfo<{row}>,"], needs)
    assert "BiasGelu" in symbol
    assert RELEASE.possible(tmp_path, "minimal", needs) == needs
    table = "onnxruntime_mlas/x/core/mlas/lib/platform.cpp"
    assert RELEASE.table.unit(["onnxruntime_mlas/x/core/mlas/lib/sgemm.cpp", table]) == table
    assert RELEASE.feature_levels.check(["avx2"], "x86_64") == ("avx", "avx2", "sse2")
