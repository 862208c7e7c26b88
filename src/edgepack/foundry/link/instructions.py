"""Instruction sets that a finished library asks of every processor it is loaded on, read from its machine code.

MLAS's kernels may use what they like: they run only where MLAS finds the processor to have it. Everything else,
start-up code and string functions included, has to be of the floor. The linker's map says which object a piece of
code is of; an inline function is a special case, since the one copy that is kept may be a kernel object's.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.errors import FloorError, MissingToolError
from edgepack.files.elf import architecture, sound_elf
from edgepack.foundry.toolchains.linkmap import Piece
from edgepack.foundry.units import Unit
from edgepack.tools import install_hint

UNKNOWN = "unknown"
"""An instruction that the disassembler does not know."""

_X86_GROUPS = {
    "sse3": "sse3",
    "ssse3": "ssse3",
    "sse41": "sse4_1",
    "sse42": "sse4_2",
    "sse4a": "sse4a",
    "aes": "aes",
    "pclmul": "pclmul",
    "bmi": "bmi",
    "bmi2": "bmi2",
    "adx": "adx",
    "sha": "sha",
}
"""capstone's groups, other than those of instructions that begin with a v."""
_X86_NAMES = {
    "popcnt": "popcnt",
    "lzcnt": "lzcnt",
    "movbe": "movbe",
    "crc32": "sse4_2",
    "cmpxchg16b": "cx16",
    "rdrand": "rdrand",
    "rdseed": "rdseed",
}
_X86_HARMLESS = {"tzcnt", "verr", "verw"}
"""Processors without tzcnt run it as bsf, which compilers know and allow for; the others are no vector instructions."""
_ARM_NAMES = {
    **dict.fromkeys(("sdot", "udot"), "dotprod"),
    **dict.fromkeys(("smmla", "ummla", "usmmla", "usdot", "sudot"), "i8mm"),
    **dict.fromkeys(("bfdot", "bfmmla", "bfmlalb", "bfmlalt", "bfcvt", "bfcvtn", "bfcvtn2"), "bf16"),
}
_ARM_ATOMICS = re.compile(
    r"(?:cas|swp|ld(?:add|clr|eor|set|smax|smin|umax|umin)|st(?:add|clr|eor|set))p?(?:a?l?[bh]?)$"
)
_ARM_HALVES = re.compile(r"\bh\d+\b|\.[48]h\b")
_ARM_SVE = re.compile(r"\b[zp]\d+[./]")


@dataclass(frozen=True, kw_only=True)
class Use:
    """An instruction set that a piece of code uses beyond its architecture's baseline."""

    feature: str
    file: str
    section: str
    instruction: str


def beyond_baseline(library: Path, pieces: Iterable[Piece]) -> Iterator[Use]:
    """What these pieces of a library use that not every processor has, each instruction set once a piece."""
    arch = architecture(library) or ""
    with sound_elf(library) as file:
        code = [(section.address, file.data(section)) for section in file.code]
    for piece in pieces:
        for address, data in code:
            if address <= piece.address < address + len(data):
                start = piece.address - address
                found: dict[str, str] = {}
                for feature, instruction in features(arch, data[start : start + piece.size]):
                    found.setdefault(feature, instruction)
                for feature, instruction in sorted(found.items()):
                    yield Use(
                        feature=feature, file=piece.file, section=piece.section, instruction=instruction
                    )


def disassembler(arch: str) -> Any:
    """capstone's for an architecture; bytes that are no instruction count as one, ``.byte``. Raises ``MissingToolError``."""
    try:
        import capstone
    except ImportError as error:
        raise MissingToolError(
            "capstone, which reads machine code, is not installed", hint=install_hint("capstone")
        ) from error
    kind = (
        (capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        if arch == "x86_64"
        else (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    )
    made = capstone.Cs(*kind)
    made.skipdata = True
    return made


def features(arch: str, code: bytes) -> Iterator[tuple[str, str]]:
    """What machine code uses beyond its architecture's baseline, and with which instruction, in its order."""
    return _x86_features(code) if arch == "x86_64" else _arm_features(code)


def _x86_features(code: bytes) -> Iterator[tuple[str, str]]:
    for at, size, name, operands in disassembler("x86_64").disasm_lite(code, 0):
        if name not in _X86_KNOWN:
            _X86_KNOWN[name] = _x86_feature(name, code[at : at + size])
        if feature := _X86_KNOWN[name]:
            yield feature, f"{name} {operands}"


_X86_KNOWN: dict[str, str] = {}


def _x86_feature(name: str, code: bytes) -> str:
    """The instruction set of an instruction, empty for the baseline."""
    words = name.split()
    if name == ".byte":
        return UNKNOWN
    if words[-1] in _X86_HARMLESS:
        return ""
    if words[-1] in _X86_NAMES:
        return _X86_NAMES[words[-1]]
    if words[-1].startswith("v"):
        return "avx"
    exact = disassembler("x86_64")
    exact.detail = True
    for instruction in exact.disasm(code, 0):
        names = [instruction.group_name(group) for group in instruction.groups]
        if any(group.startswith("avx") for group in names):
            return "avx"
        return next((_X86_GROUPS[group] for group in names if group in _X86_GROUPS), "")
    return UNKNOWN


def _arm_features(code: bytes) -> Iterator[tuple[str, str]]:
    for _, _, name, operands in disassembler("aarch64").disasm_lite(code, 0):
        if feature := _arm_feature(name, operands):
            yield feature, f"{name} {operands}"


def _arm_feature(name: str, operands: str) -> str:
    if name == ".byte":
        return UNKNOWN
    if name in _ARM_NAMES:
        return _ARM_NAMES[name]
    if _ARM_ATOMICS.match(name):
        return "atomics"
    if name.startswith("crc32"):
        return "crc32"
    if _ARM_SVE.search(operands):
        return "sve"
    # Conversions between half and single precision are of the baseline, arithmetic is not.
    if name[0] == "f" and not name.startswith(("fcvtl", "fcvtn")) and _ARM_HALVES.search(operands):
        return "" if name == "fcvt" or (name == "fmov" and "#" not in operands) else "fp16"
    return ""


def is_dispatched(unit: Unit) -> bool:
    """Whether a unit's functions run only where MLAS found the processor to have what they use."""
    return unit.name.startswith("onnxruntime_mlas/") and (
        unit.language == "ASM"
        or any(flag.startswith(("-mavx", "-mamx", "-mfma", "-msse", "-march=")) for flag in unit.flags)
    )


def check_instructions(library: Path, pieces: Iterable[Piece], *, is_kernel: Callable[[Piece], bool]) -> None:
    """Raises ``FloorError`` for code outside MLAS's kernels that asks for more than every processor has.

    ``is_kernel`` is true of pieces that run only where MLAS chose them: not of an inline function that other objects
    have too, since the linker keeps one copy for all.
    """
    plain = [piece for piece in pieces if piece.size and not is_kernel(piece)]
    for use in beyond_baseline(library, plain):
        # Its atomic operations look at the processor themselves.
        if not (use.feature == "atomics" and "libcompiler_rt" in use.file):
            raise FloorError(
                f"{library.name} would need {use.feature} of every processor: {use.instruction} "
                f"in {use.section} of {use.file}",
                hint="this is a fault of edgepack: report it, with the model and the target",
            )
