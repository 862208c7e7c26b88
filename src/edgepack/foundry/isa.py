"""Instruction sets that a device is known to have: MLAS's kernels for others are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from edgepack.errors import UsageError
from edgepack.foundry.dispatch import ASSIGNMENT

IMPLIED = {
    "avx2": (),
    "avx_vnni": ("avx2",),
    "avx_vnni_int8": ("avx_vnni", "avx2"),
    "avx512": ("avx2",),
    "avx512_vnni": ("avx512", "avx2"),
    "amx": ("avx512_vnni", "avx512", "avx2"),
}
"""What can be named for x86-64, and what is meant with it."""

_CHECKS = {
    "avx512": r"\(\(Cpuid7\[1\] & 0x10000\) != 0\)",
    "avx512_vnni": r"\(Cpuid7\[2\] & 0x800\) != 0",
    "avx_vnni": r"\(Cpuid7_1\[0\] & 0x10\) != 0",
    "avx_vnni_int8": r"\(Cpuid7_1\[3\] & 0x10\) != 0",
    "amx": r"\(Cpuid7\[3\] & 0b1 << 24\) != 0",
}
"""How MLAS's platform.cpp asks the processor."""
_AVX2 = re.compile(
    r"if \(\(\(Cpuid1\[2\] & 0x1000\) != 0\) && \(\(Cpuid7\[1\] & 0x20\) != 0\)\) \{(?P<block>.*?)\bif \(",
    re.S,
)


def check_isa(names: Iterable[str], arch: str) -> tuple[str, ...]:
    """The instruction sets, sorted, with all that they imply; none: whatever the device has. Raises ``UsageError``."""
    named = set(names)
    known = IMPLIED if arch == "x86_64" else {}
    if unknown := sorted(named - known.keys()):
        raise UsageError(
            f"no kernels are chosen by {', '.join(unknown)} on {arch}",
            hint=f"isa may name {', '.join(known)}" if known else "leave isa out",
        )
    return tuple(sorted(named.union(*(known[name] for name in named))))


def restrict_isa(source: str, isa: Iterable[str]) -> str:
    """``platform.cpp`` for processors that have these instruction sets and use no others; lines stay.

    Kernels of what is not named are never chosen; those that AVX2's always replace are not set.
    """
    named = set(isa)
    if not named:
        return source
    for name, check in _CHECKS.items():
        if name not in named:
            source = re.sub(rf"if \((?={check})", "if (false && ", source)
    floor = _AVX2.search(source)
    if floor is None:
        raise ValueError("no check for AVX2 in this source")
    replaced = {match["entry"] for match in ASSIGNMENT.finditer(floor["block"])}

    def drop(match: re.Match[str]) -> str:
        return match["indent"] + ";" if match["entry"] in replaced else match[0]

    return ASSIGNMENT.sub(drop, source[: floor.start()]) + source[floor.start() :]
