"""MLAS's table of kernels names only what is called."""

from __future__ import annotations

import pytest
from tests.support.small_archive import request

from edgepack.errors import ToolError
from edgepack.foundry.releases.ort_1_21.dispatch import (
    DISPATCH_PATCH,
    assigned_kernels,
    dispatch_entries,
    entries_read,
    inline_readers,
    trim_dispatch,
)

PLATFORM = """\
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
    with pytest.raises(ToolError, match=r"platform\.cpp is not as ONNX Runtime 1\.21's.*MLAS_PLATFORM"):
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
