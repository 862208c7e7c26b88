"""Which instruction sets finished machine code asks for."""

import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from edgepack.errors import FloorError, MissingToolError
from edgepack.foundry.link.instructions import check_instructions, is_dispatched
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.processor import MachineCode
from edgepack.foundry.processors import aarch64, x86_64
from edgepack.foundry.units import Unit

SOURCE = """
int plain(int a) { return a + 1; }
__attribute__((target("avx2"))) void kernel(float *a) { for (int i = 0; i < 64; ++i) a[i] *= 2; }
"""


def found(read: MachineCode, code: bytes) -> list[str]:
    return [feature for feature, _ in read(code)]


@pytest.mark.parametrize(
    ("code", "feature"),
    [
        ("0f58c1", None),  # addps
        ("f20f5ac0", None),  # cvtsd2ss
        ("0fa2", None),  # cpuid
        ("f30fbcc1", None),  # tzcnt, which is bsf elsewhere
        ("c5f058c2", "avx"),  # vaddps
        ("c4e279f7c1", "bmi2"),  # shlx
        ("62f1744858c2", "avx"),  # vaddps zmm
        ("f30fb8c1", "popcnt"),
        ("660f3800c1", "ssse3"),  # pshufb
        ("660f3840c1", "sse4_1"),  # pmulld
        ("0f0b", None),  # ud2
        ("06", "unknown"),  # none in 64-bit mode
    ],
)
def test_x86_64(code: str, feature: str | None) -> None:
    assert found(x86_64.features, bytes.fromhex(code)) == ([feature] if feature else [])


@pytest.mark.parametrize(
    ("word", "feature"),
    [
        (0x4E22D420, None),  # fadd v0.4s, v1.4s, v2.4s
        (0x1EE24000, None),  # fcvt s0, h0
        (0x0E217820, None),  # fcvtl v0.4s, v1.4h... of the baseline
        (0xD65F03C0, None),  # ret
        (0x4E829420, "dotprod"),  # sdot v0.4s, v1.16b, v2.16b
        (0x6F82E020, "dotprod"),  # udot by element
        (0x4E82A420, "i8mm"),  # smmla
        (0x6E82A420, "i8mm"),  # ummla
        (0x6E42EC20, "bf16"),  # bfmmla
        (0x4E421420, "fp16"),  # fadd v0.8h
        (0x1EE22820, "fp16"),  # fadd h0, h1, h2
        (0xB8200041, "atomics"),  # ldadd w0, w1, [x2]
        (0x9AC24C20, "crc32"),  # crc32x
        (0x04A00020, "sve"),  # add z0.s, z1.s, z0.s
    ],
)
def test_arm64(word: int, feature: str | None) -> None:
    assert found(aarch64.features, struct.pack("<I", word)) == ([feature] if feature else [])


@pytest.fixture
def library(tmp_path: Path) -> tuple[Path, list[Piece]]:
    """A library with a plain function and one for AVX2, and where they are."""
    (tmp_path / "a.c").write_text(SOURCE)
    command = ["gcc", "-O3", "-shared", "-fPIC", "-ffunction-sections", "a.c", "-o", "liba.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    pieces = []
    with (tmp_path / "liba.so").open("rb") as stream:
        symbols = ELFFile(stream).get_section_by_name(".symtab")
        assert symbols is not None
        for symbol in symbols.iter_symbols():  # type: ignore[attr-defined]
            if symbol.name in ("plain", "kernel"):
                pieces.append(
                    Piece(
                        output=".text",
                        file="a.o",
                        section=f".text.{symbol.name}",
                        size=symbol["st_size"],
                        address=symbol["st_value"],
                    )
                )
    return tmp_path / "liba.so", pieces


@pytest.mark.tools("gcc")
def test_only_kernels_may_use_what_not_every_processor_has(library: tuple[Path, list[Piece]]) -> None:
    file, pieces = library
    assert len(pieces) == 2
    check_instructions(file, pieces, x86_64.X86_64, is_kernel=lambda piece: piece.section == ".text.kernel")
    with pytest.raises(
        FloorError, match=r"liba\.so would need avx of every processor: v\w+ .* in \.text\.kernel of a\.o"
    ):
        check_instructions(file, pieces, x86_64.X86_64, is_kernel=lambda piece: False)


@pytest.mark.tools("gcc")
def test_a_processor_whose_code_nobody_reads(library: tuple[Path, list[Piece]]) -> None:
    file, pieces = library
    unread = replace(x86_64.X86_64, beyond_baseline=None)
    check_instructions(file, pieces, unread, is_kernel=lambda piece: False)


def test_which_units_are_dispatched() -> None:
    def unit(name: str, language: str = "CXX", *flags: str) -> Unit:
        return Unit(name=name, source="", language=language, flags=flags)

    assert is_dispatched(unit("onnxruntime_mlas/lib/a.S", "ASM"))
    assert is_dispatched(unit("onnxruntime_mlas/lib/a.cpp", "CXX", "-O2", "-mavx2"))
    assert is_dispatched(unit("onnxruntime_mlas/lib/a.cpp", "CXX", "-march=armv8.2-a+fp16"))
    assert not is_dispatched(unit("onnxruntime_mlas/lib/sgemm.cpp", "CXX", "-O2"))
    assert not is_dispatched(unit("onnxruntime_providers/cpu/a.cc", "CXX", "-mavx2"))


def test_without_the_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "capstone", None)
    with pytest.raises(MissingToolError, match="capstone") as caught:
        found(x86_64.features, b"\x90")
    assert "edgepack[build]" in str(caught.value.hint)
