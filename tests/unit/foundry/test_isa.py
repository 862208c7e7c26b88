"""Kernels for instruction sets that the device is known not to need are left out."""

from __future__ import annotations

import re

import pytest

from edgepack.errors import UsageError
from edgepack.foundry.isa import check_isa, restrict_isa

PLATFORM = """\
    this->GemmFloatKernel = MlasGemmFloatKernelSse;
    this->QuantizeKernel = MlasQuantizeKernel;
        if ((xcr0 & 0x6) == 0x6) {
            this->GemmFloatKernel = MlasGemmFloatKernelAvx;
            this->SoftmaxKernel = MlasSoftmaxKernelAvx;
            if (((Cpuid1[2] & 0x1000) != 0) && ((Cpuid7[1] & 0x20) != 0)) {
                this->GemmFloatKernel = MlasGemmFloatKernelFma3;
                if ((Cpuid7[3] & 0x8000) != 0) {
                    this->MaximumThreadCount = 4;
                }
                if ((Cpuid7_1[0] & 0x10) != 0) {
                    this->GemmU8S8Kernel = MlasGemmU8S8KernelAvxVnni;
                }
                if (((Cpuid7[1] & 0x10000) != 0) && ((xcr0 & 0xE0) == 0xE0)) {
                    this->GemmFloatKernel = MlasGemmFloatKernelAvx512F;
                    if ((Cpuid7[1] & 0xC0020000) == 0xC0020000) {
                        if ((Cpuid7[2] & 0x800) != 0) {
                            this->GemmU8S8Kernel = MlasGemmU8S8KernelAvx512Vnni;
                        }
                    }
                }
                if ((Cpuid7_1[3] & 0x10) != 0) {
                    this->GemmS8S8Kernel = MlasGemmS8S8KernelAvx2Vnni;
                }
                if ((Cpuid7[3] & 0b1 << 24) != 0 &&
                    (Cpuid7[3] & 0b1 << 25) != 0) {
                }
            }
        }
"""


def excluded(*isa: str) -> int:
    return restrict_isa(PLATFORM, check_isa(isa, "x86_64")).count("if (false && ")


def test_without_a_word_everything_stays() -> None:
    assert restrict_isa(PLATFORM, ()) == PLATFORM


def test_what_is_above_the_device_is_never_chosen() -> None:
    assert excluded("avx2") == 5
    assert excluded("avx512_vnni") == 3
    assert excluded("amx") == 2
    assert excluded("avx_vnni") == 4
    text = restrict_isa(PLATFORM, ("avx2",))
    assert "if (false && ((Cpuid7[1] & 0x10000) != 0)" in text
    assert "if ((Cpuid7[3] & 0x8000) != 0)" in text


def test_what_avx2_replaces_is_not_set() -> None:
    text = restrict_isa(PLATFORM, ("avx2",))
    assert not re.search("GemmFloatKernel(Sse|Avx);", text)
    assert "MlasGemmFloatKernelFma3" in text
    assert "MlasSoftmaxKernelAvx" in text and "MlasQuantizeKernel" in text
    assert text.count("\n") == PLATFORM.count("\n")


def test_what_is_implied() -> None:
    assert check_isa(["avx512_vnni"], "x86_64") == ("avx2", "avx512", "avx512_vnni")
    assert check_isa([], "aarch64") == ()


def test_what_is_not_known() -> None:
    with pytest.raises(UsageError, match="mmx") as caught:
        check_isa(["mmx"], "x86_64")
    assert "avx512_vnni" in str(caught.value.hint)
    with pytest.raises(UsageError, match="avx2 on aarch64"):
        check_isa(["avx2"], "aarch64")


def test_a_source_that_is_another() -> None:
    with pytest.raises(ValueError, match="AVX2"):
        restrict_isa("int main() {}", ("avx2",))
