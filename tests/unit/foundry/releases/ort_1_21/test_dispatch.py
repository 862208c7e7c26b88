"""MLAS's table of kernels names only what is called."""

from pathlib import Path

import pytest
from tests.support.small_archive import request

from edgepack.errors import ToolError
from edgepack.foundry.releases.ort_1_21.dispatch import (
    DISPATCH_PATCH,
    DispatchTable,
    assigned_kernels,
    dispatch_entries,
    entries_read,
    inline_readers,
    trim_dispatch,
)

PLATFORM = """\
#include "mlasi.h"
MLAS_PLATFORM::MLAS_PLATFORM(
    void
    )
{
    this->GemmFloatKernel = MlasGemmFloatKernelSse;
    this->GemmU8S8Dispatch = &MlasGemmU8X8DispatchSse;
    this->PoolFloatKernel[MlasMaximumPooling] = MlasPoolMaximumFloatKernelSse;
    this->ConvDepthwiseU8S8Kernel = MlasConvDepthwiseKernel<uint8_t, int8_t>;
    this->NchwcBlockSize = 8;
    if (avx)
        this->PoolFloatKernel[MlasMaximumPooling] =
            MlasPoolMaximumFloatKernelAvx;
    this->CastF16ToF32Kernel = nullptr;
}
bool Overflow() { const auto& p = GetMlasPlatform(); return p.GemmU8S8Dispatch != nullptr; }
"""


def test_entries_are_those_that_are_set_to_kernels() -> None:
    assert dispatch_entries(PLATFORM) == {
        "GemmFloatKernel",
        "GemmU8S8Dispatch",
        "PoolFloatKernel",
        "ConvDepthwiseU8S8Kernel",
    }


def test_only_what_is_kept_is_set() -> None:
    text = trim_dispatch(PLATFORM, {"GemmFloatKernel"})
    assert "MlasGemmFloatKernelSse" in text
    for gone in ("MlasGemmU8X8DispatchSse", "MlasPoolMaximum", "MlasConvDepthwise"):
        assert gone not in text
    assert "NchwcBlockSize = 8;" in text and "CastF16ToF32Kernel = nullptr;" in text
    assert text.count("\n") == PLATFORM.count("\n")
    assert "if (avx)\n        ;" in text


def test_keeping_everything_changes_nothing() -> None:
    assert trim_dispatch(PLATFORM, dispatch_entries(PLATFORM)) == PLATFORM


def test_what_sources_read() -> None:
    entries = dispatch_entries(PLATFORM)
    assert entries_read(
        ["GetMlasPlatform().GemmFloatKernel(A)", "auto&& p = x; p->PoolFloatKernel[0]"], entries
    ) == {
        "GemmFloatKernel",
        "PoolFloatKernel",
    }
    assert entries_read(["GemmFloatKernelOther", "x.GemmFloatKernel2"], entries) == set()


def test_a_source_that_is_another() -> None:
    with pytest.raises(
        ToolError,
        match=r"platform\.cpp is not as ONNX Runtime 1\.21's: MLAS's table of kernels.*MLAS_PLATFORM",
    ):
        DISPATCH_PATCH.rewritten("int main() {}", request(), origin="ONNX Runtime 1.21")


def test_the_kernels_that_an_entry_is_set_to() -> None:
    found = assigned_kernels(PLATFORM)
    assert found["PoolFloatKernel"] == {"MlasPoolMaximumFloatKernelSse", "MlasPoolMaximumFloatKernelAvx"}
    assert found["GemmU8S8Dispatch"] == {"MlasGemmU8X8DispatchSse"}
    assert found["ConvDepthwiseU8S8Kernel"] == {"MlasConvDepthwiseKernel"}


def test_functions_of_headers_that_read_entries() -> None:
    header = (
        "#pragma once\n"
        "MLAS_FORCEINLINE\nconst X*\nMlasGemmQuantGetDispatch(\n    bool s\n)\n{\n    return GetMlasPlatform().GemmU8S8Dispatch;\n}\n"
        "void\nMlasOther(\n    int x\n);\n"
    )
    assert inline_readers([header], ["GemmU8S8Dispatch", "Other"]) == {
        "MlasGemmQuantGetDispatch": {"GemmU8S8Dispatch"}
    }


def test_each_function_of_a_header_has_its_own_entries() -> None:
    header = "MlasA(\n) { p->One; }\nMlasB(\n) { p->Two; }\nMlasC(\n) { p->One; }\n"
    assert inline_readers([header, "MlasA(\n) { p->Two; }\n"], ["One", "Two"]) == {
        "MlasA": {"One", "Two"},
        "MlasB": {"Two"},
        "MlasC": {"One"},
    }


def test_the_patch_keeps_what_the_request_reads() -> None:
    made = DISPATCH_PATCH.rewritten(
        PLATFORM, request(entries=frozenset({"GemmFloatKernel"})), origin="ONNX Runtime 1.21"
    )
    assert made == trim_dispatch(PLATFORM, {"GemmFloatKernel"})
    assert DISPATCH_PATCH.matches("onnxruntime_mlas/onnxruntime/onnxruntime/core/mlas/lib/platform.cpp")
    assert not DISPATCH_PATCH.matches("onnxruntime_mlas/onnxruntime/onnxruntime/core/mlas/lib/pooling.cpp")
    assert not DISPATCH_PATCH.matches("onnxruntime_common/platform.cpp")


TABLE_UNIT = "onnxruntime_mlas/x/core/mlas/lib/platform.cpp"
SOURCES = {
    "onnxruntime_session/x/session.cc": "p->PoolFloatKernel",
    TABLE_UNIT: PLATFORM,
    "onnxruntime_mlas/x/core/mlas/lib/sgemm.cpp": "GetMlasPlatform().GemmFloatKernel(A);",
    "onnxruntime_mlas/x/core/mlas/lib/qgemm.cpp": "MlasGemmQuantGetDispatch(true); GetMlasPlatform().GemmFloatKernel(A);",
    "onnxruntime_mlas/x/core/mlas/lib/pooling.cpp": "p->PoolFloatKernel[0];",
}
HEADERS = {
    "qgemm.h": "MlasGemmQuantGetDispatch(\n    bool s\n)\n{\n    return GetMlasPlatform().GemmU8S8Dispatch;\n}\n",
    "kernels/inline.h": "x.ConvDepthwiseU8S8Kernel",
    "notes.txt": "x.PoolFloatKernel",
}


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    """Units of MLAS beside their headers, and one of another library: name → file."""
    for name, text in HEADERS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    made = {name: tmp_path / name.rpartition("/")[2] for name in SOURCES}
    for name, file in made.items():
        file.write_text(SOURCES[name])
    return made


def unit(name: str) -> str:
    return f"onnxruntime_mlas/x/core/mlas/lib/{name}.cpp"


def test_the_table_s_unit_is_found(sources: dict[str, Path]) -> None:
    assert DispatchTable().unit(sources) == TABLE_UNIT


def test_entries_that_live_units_and_headers_read(sources: dict[str, Path]) -> None:
    table = DispatchTable()
    always = {"GemmU8S8Dispatch", "ConvDepthwiseU8S8Kernel"}
    """A header reads the one, and one in a folder below it the other."""
    assert table.entries_read(sources, [], [], {}) == always
    live = [TABLE_UNIT, unit("sgemm"), "onnxruntime_session/x/session.cc"]
    assert table.entries_read(sources, live, [], {}) == always | {"GemmFloatKernel"}
    assert table.entries_read(sources, list(sources), [], {}) == always | {
        "GemmFloatKernel",
        "PoolFloatKernel",
    }


def test_the_table_s_own_unit_reads_too(sources: dict[str, Path]) -> None:
    sources[TABLE_UNIT].write_text(f"{PLATFORM}bool f() {{ return GetMlasPlatform().PoolFloatKernel; }}\n")
    assert "PoolFloatKernel" in DispatchTable().entries_read(sources, [], [], {})


def test_an_entry_is_unread_when_none_of_its_readers_is_linked(sources: dict[str, Path]) -> None:
    told = {"GemmU8S8Dispatch": ("MlasGemm", "MlasOther"), "ConvDepthwiseU8S8Kernel": ("MlasConv",)}
    read = DispatchTable().entries_read(sources, [], [".text.MlasOther", ".text.Softmax"], told)
    assert read == {"GemmU8S8Dispatch"}


def test_units_call_the_kernels_of_the_entries_that_they_read(sources: dict[str, Path]) -> None:
    assert DispatchTable().callers(sources, sources) == {
        unit("sgemm"): {"MlasGemmFloatKernelSse"},
        unit("qgemm"): {"MlasGemmU8X8DispatchSse", "MlasGemmFloatKernelSse"},
        unit("pooling"): {"MlasPoolMaximumFloatKernelSse", "MlasPoolMaximumFloatKernelAvx"},
    }
    assert set(DispatchTable().callers(sources, [unit("sgemm")])) == {unit("sgemm")}
