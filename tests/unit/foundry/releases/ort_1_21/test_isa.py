"""Kernels for instruction sets that the device is known not to need are left out."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.support.small_archive import request

from edgepack.errors import ToolError
from edgepack.foundry.feature_levels import processor_flags
from edgepack.foundry.releases.ort_1_21.isa import isa_patch
from edgepack.foundry.releases.ort_1_21.levels import LEVELS

X86 = """\
MLAS_PLATFORM::MLAS_PLATFORM(
    void
    )
{
    this->GemmFloatKernel = MlasGemmFloatKernelSse;
    this->QuantizeKernel = MlasQuantizeKernel;
        if ((xcr0 & 0x6) == 0x6) {
            this->GemmFloatKernel = MlasGemmFloatKernelAvx;
            this->SoftmaxKernel = MlasSoftmaxKernelAvx;
            if (((Cpuid1[2] & 0x1000) != 0) && ((Cpuid7[1] & 0x20) != 0)) {
                this->GemmFloatKernel = MlasGemmFloatKernelFma3;
                this->GemmU8S8Kernel = MlasGemmU8S8KernelAvx2;
                if ((Cpuid7[3] & 0x8000) != 0) {
                    this->MaximumThreadCount = 4;
                }
                if ((Cpuid7_1[0] & 0x10) != 0) {
                    this->GemmU8S8Kernel = MlasGemmU8S8KernelAvxVnni;
                }
                if (((Cpuid7[1] & 0x10000) != 0) && ((xcr0 & 0xE0) == 0xE0)) {
                    this->GemmFloatKernel = MlasGemmFloatKernelAvx512F;
                    if ((Cpuid7[1] & 0xC0020000) == 0xC0020000) {
                        this->GemmU8S8Kernel = MlasGemmU8S8KernelAvx512Core;
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
}
"""
ARM = """\
MLAS_PLATFORM::MLAS_PLATFORM(
    void
    )
{
    this->GemmU8S8Dispatch = &MlasGemmX8S8DispatchNeon;
    this->QNBitGemmDispatch = &MlasSQNBitGemmDispatchNeon;
    if (HasDotProductInstructions) {
        this->GemmU8S8Dispatch = &MlasGemmU8X8DispatchUdot;
    }
    if (MLAS_CPUIDINFO::GetCPUIDInfo().HasArmNeon_I8MM()) {
        this->GemmU8S8Dispatch = &MlasGemmU8X8DispatchUmmla;
    }
}
"""


def restrict_isa(source: str, isa: tuple[str, ...], arch: str) -> str:
    asked, patch = request(isa=isa, arch=arch), isa_patch(arch)
    return patch.rewritten(source, asked, origin="ONNX Runtime 1.21") if patch.applies(asked) else source


def kernels(*isa: str) -> set[str]:
    """Those that are set where their check is not switched off."""
    source, arch = (ARM, "aarch64") if isa[0] in ("neon", "dotprod", "i8mm") else (X86, "x86_64")
    text = restrict_isa(source, isa, arch)
    reached, depth, off = set(), 0, 0
    for line in text.splitlines():
        if "if (false" in line and not off:
            off = depth + 1
        if not off and (kernel := re.search(r"= &?(Mlas\w+);", line)):
            reached.add(kernel[1].removeprefix("Mlas"))
        depth += line.count("{") - line.count("}")
        if depth < off:
            off = 0
    return reached


def guard(source: str, floor: str, arch: str) -> str:
    """What is compiled before the constructor: includes, and the function that looks at the processor."""
    made = restrict_isa(source, (floor,), arch)
    head = made[: made.index("#line 1")]
    return head + made[made.index("static void RequireFloor") : made.index(" MLAS_PLATFORM::")]


def test_without_a_word_everything_stays() -> None:
    assert restrict_isa(X86, (), "x86_64") == X86


@pytest.mark.parametrize(
    ("isa", "gemm"),
    [
        (["sse2"], {"GemmFloatKernelSse"}),
        (["avx"], {"GemmFloatKernelAvx"}),
        (["avx2"], {"GemmFloatKernelFma3", "GemmU8S8KernelAvx2"}),
        (
            ["sse2", "avx2"],
            {"GemmFloatKernelSse", "GemmFloatKernelAvx", "GemmFloatKernelFma3", "GemmU8S8KernelAvx2"},
        ),
        (["avx_vnni"], {"GemmFloatKernelFma3", "GemmU8S8KernelAvxVnni"}),
        (
            ["avx2", "avx512_vnni"],
            {
                "GemmFloatKernelFma3",
                "GemmU8S8KernelAvx2",
                "GemmFloatKernelAvx512F",
                "GemmU8S8KernelAvx512Core",
                "GemmU8S8KernelAvx512Vnni",
            },
        ),
        (["avx512_vnni"], {"GemmFloatKernelAvx512F", "GemmU8S8KernelAvx512Vnni"}),
        (["neon"], {"GemmX8S8DispatchNeon", "SQNBitGemmDispatchNeon"}),
        (["dotprod"], {"GemmU8X8DispatchUdot", "SQNBitGemmDispatchNeon"}),
        (
            ["neon", "i8mm"],
            {
                "GemmX8S8DispatchNeon",
                "GemmU8X8DispatchUdot",
                "GemmU8X8DispatchUmmla",
                "SQNBitGemmDispatchNeon",
            },
        ),
        (["i8mm"], {"GemmU8X8DispatchUmmla", "SQNBitGemmDispatchNeon"}),
    ],
    ids=lambda names: " ".join(names) if isinstance(names, list) else "",
)
def test_which_kernels_stay(isa: list[str], gemm: set[str]) -> None:
    assert {name for name in kernels(*isa) if "Gemm" in name} == gemm


def test_what_has_no_better_kernel_stays() -> None:
    assert {"SoftmaxKernelAvx", "QuantizeKernel"} <= kernels("avx512_vnni")


def test_upstream_s_lines_keep_their_numbers() -> None:
    head, text = restrict_isa(X86, ("avx2",), "x86_64").split("#line 1\n")
    assert head.startswith("#include") and text.count("\n") == X86.count("\n")


def test_a_source_that_is_another() -> None:
    with pytest.raises(ToolError, match=r"platform\.cpp is not as ONNX Runtime 1\.21's: instruction sets"):
        restrict_isa("int main() {}", ("avx2",), "x86_64")
    with pytest.raises(ToolError, match="xcr0"):
        restrict_isa(X86.replace("(xcr0 & 0x6)", "(other)"), ("sse2",), "x86_64")


ASKED_OF_LINUX = """\
#pragma once
#define AT_HWCAP 16
#define AT_HWCAP2 26
inline unsigned long words[32];
inline unsigned long getauxval(unsigned long which) { return words[which]; }
"""
ASIMDDP, I8MM = 1 << 20, 1 << 13
"""Bits of Linux's two words (asm/hwcap.h)."""


@pytest.mark.tools("g++")
@pytest.mark.parametrize(
    ("floor", "enough", "too_little"),
    [
        ("dotprod", [(ASIMDDP, 0), (ASIMDDP, I8MM)], [(0, 0), (~ASIMDDP, ~0)]),
        ("i8mm", [(ASIMDDP, I8MM)], [(ASIMDDP, 0), (0, I8MM), (ASIMDDP, ~I8MM)]),
    ],
)
def test_an_arm_processor_below_the_floor_gets_a_sentence(
    floor: str, enough: list[tuple[int, int]], too_little: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Compiled for this processor, with a Linux that says what the test says."""
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/auxv.h").write_text(ASKED_OF_LINUX)
    (tmp_path / "a.cc").write_text(
        f"{guard(ARM, floor, 'aarch64')}\nint main(int count, char** arguments) {{\n"
        "  words[AT_HWCAP] = strtoul(arguments[1], 0, 10); words[AT_HWCAP2] = strtoul(arguments[2], 0, 10);\n"
        "  RequireFloor();\n}\n"
    )
    subprocess.run(["g++", "-std=c++17", "-I.", "a.cc", "-o", "a"], cwd=tmp_path, check=True)

    def said(words: tuple[int, int]) -> str:
        done = subprocess.run(
            [tmp_path / "a", *(str(word & 0xFFFFFFFF) for word in words)], capture_output=True, text=True
        )
        assert (done.returncode < 0) == bool(done.stderr)
        return done.stderr

    sentence = f"this ONNX Runtime is made for processors with {floor}, which this one lacks\n"
    assert [said(words) for words in enough] == [""] * len(enough)
    assert [said(words) for words in too_little] == [sentence] * len(too_little)


def test_what_every_arm_processor_has_is_not_asked_for() -> None:
    assert "RequireFloor" not in restrict_isa(ARM, ("neon", "i8mm"), "aarch64")


@pytest.mark.tools("g++")
@pytest.mark.parametrize("floor", ["avx", "avx512_vnni", "amx"])
def test_a_processor_below_the_floor_gets_a_sentence(floor: str, tmp_path: Path) -> None:
    if "sse2" not in processor_flags():
        pytest.skip("not an x86-64 processor")
    (tmp_path / "a.cc").write_text(f"{guard(X86, floor, 'x86_64')}\nint main() {{ RequireFloor(); }}\n")
    subprocess.run(["g++", "-O1", "a.cc", "-o", "a"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "a"], capture_output=True, text=True)
    level = LEVELS.named(floor, "x86_64")
    if level.runs_on(processor_flags()):
        assert done.returncode == 0
    else:
        assert done.returncode < 0
        assert done.stderr == f"this ONNX Runtime is made for processors with {floor}, which this one lacks\n"
