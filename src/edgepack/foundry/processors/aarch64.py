"""arm64."""

import re
from collections.abc import Iterator

from edgepack.fetch.debian import Package
from edgepack.foundry.processor import BranchProtection, Processor, Sysroot
from edgepack.foundry.processors.disassembler import UNKNOWN, disassembler
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.sources.pinned import Archive

_NAMES = {
    **dict.fromkeys(("sdot", "udot"), "dotprod"),
    **dict.fromkeys(("smmla", "ummla", "usmmla", "usdot", "sudot"), "i8mm"),
    **dict.fromkeys(("bfdot", "bfmmla", "bfmlalb", "bfmlalt", "bfcvt", "bfcvtn", "bfcvtn2"), "bf16"),
}
_ATOMICS = re.compile(
    r"(?:cas|swp|ld(?:add|clr|eor|set|smax|smin|umax|umin)|st(?:add|clr|eor|set))p?(?:a?l?[bh]?)$"
)
_HALVES = re.compile(r"\bh\d+\b|\.[48]h\b")
_SVE = re.compile(r"\b[zp]\d+[./]")


def features(code: bytes) -> Iterator[tuple[str, str]]:
    """Features that machine code uses beyond ARMv8.0, and the instruction that shows each, in its order."""
    for _, _, name, operands in disassembler("CS_ARCH_ARM64", "CS_MODE_ARM").disasm_lite(code, 0):
        if feature := _feature(name, operands):
            yield feature, f"{name} {operands}"


def _feature(name: str, operands: str) -> str:
    if name == ".byte":
        return UNKNOWN
    if name in _NAMES:
        return _NAMES[name]
    if _ATOMICS.match(name):
        return "atomics"
    if name.startswith("crc32"):
        return "crc32"
    if _SVE.search(operands):
        return "sve"
    # Conversions between half and single precision are of the baseline, arithmetic is not.
    if name[0] == "f" and not name.startswith(("fcvtl", "fcvtn")) and _HALVES.search(operands):
        return "" if name == "fcvt" or (name == "fmov" and "#" not in operands) else "fp16"
    return ""


AARCH64 = Processor(
    name="aarch64",
    triple="aarch64-linux-gnu",
    headers="aarch64",
    emulation="aarch64linux",
    loader="/lib/ld-linux-aarch64.so.1",
    debian="arm64",
    # Upstream's check of the compiler does not get past `zig cc`, which has other words for -march; the compiler that is
    # used knows both.
    cmake={"HAS_ARM64_BFLOAT16": "ON", "HAS_ARM64_FLOAT16": "ON"},
    levels=tuple(RELEASE.feature_levels.on("aarch64")),
    beyond_baseline=features,
    protection=BranchProtection(
        flags=("-mbranch-protection=standard",), mark="bti", landing="bti c", start="start-aarch64.S"
    ),
    sysroot=Sysroot(
        packages=(
            Archive(
                file="libc6_2.36-9+deb12u14_arm64.deb",
                sha256="01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4",
                size=2324660,
                debian=Package(suite="bookworm", kind="deb", name="libc6:arm64"),
            ),
        )
    ),
)
