"""x86-64."""

from collections.abc import Iterator

from edgepack.foundry.processor import Processor
from edgepack.foundry.processors.disassembler import UNKNOWN, disassembler
from edgepack.foundry.releases.registry import RELEASE

CAPSTONE = ("CS_ARCH_X86", "CS_MODE_64")
_GROUPS = {
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
_NAMES = {
    "popcnt": "popcnt",
    "lzcnt": "lzcnt",
    "movbe": "movbe",
    "crc32": "sse4_2",
    "cmpxchg16b": "cx16",
    "rdrand": "rdrand",
    "rdseed": "rdseed",
}
_HARMLESS = {"tzcnt", "verr", "verw"}
"""Processors without tzcnt run it as bsf, which compilers know and allow for; the others are no vector instructions."""


def features(code: bytes) -> Iterator[tuple[str, str]]:
    """Features that machine code uses beyond SSE2, and the instruction that shows each, in its order."""
    for at, size, name, operands in disassembler(*CAPSTONE).disasm_lite(code, 0):
        if name not in _KNOWN:
            _KNOWN[name] = _feature(name, code[at : at + size])
        if feature := _KNOWN[name]:
            yield feature, f"{name} {operands}"


_KNOWN: dict[str, str] = {}


def _feature(name: str, code: bytes) -> str:
    """The instruction set of an instruction, empty for the baseline."""
    words = name.split()
    if name == ".byte":
        return UNKNOWN
    if words[-1] in _HARMLESS:
        return ""
    if words[-1] in _NAMES:
        return _NAMES[words[-1]]
    if words[-1].startswith("v"):
        return "avx"
    exact = disassembler(*CAPSTONE)
    exact.detail = True
    for instruction in exact.disasm(code, 0):
        names = [instruction.group_name(group) for group in instruction.groups]
        if any(group.startswith("avx") for group in names):
            return "avx"
        return next((_GROUPS[group] for group in names if group in _GROUPS), "")
    return UNKNOWN


X86_64 = Processor(
    name="x86_64",
    triple="x86_64-linux-gnu",
    headers="x86",
    emulation="elf_x86_64",
    loader="/lib64/ld-linux-x86-64.so.2",
    debian="amd64",
    levels=tuple(RELEASE.feature_levels.on("x86_64")),
    beyond_baseline=features,
    # Linux enforces shadow stacks, which ask nothing of code in which every return has its call. Landing pads for
    # indirect branches (IBT) it enforces in the kernel only.
    marks=frozenset({"shstk"}),
)
