"""Levels of instruction sets that MLAS has kernels for, and which of them a processor has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Level:
    """A kind of processor, by the kernels that MLAS chooses on it."""

    name: str
    flags: frozenset[str]
    """What Linux calls, in /proc/cpuinfo, all that MLAS asks for and what comes with it."""
    emulated: str | None
    """The processor of qemu that has this level and none above; None where qemu has none."""


def _x86_levels() -> tuple[Level, ...]:
    avx = "sse3 pni ssse3 sse4_1 sse4_2 osxsave avx"
    avx2 = f"{avx} f16c fma avx2"
    avx512 = f"{avx2} avx512f avx512dq avx512bw avx512vl"
    rows = (
        ("sse2", "", "qemu64"),
        ("avx", avx, "SandyBridge"),
        ("avx2", avx2, "Haswell"),
        ("avx_vnni", f"{avx2} avx_vnni", None),
        ("avx_vnni_int8", f"{avx2} avx_vnni avx_vnni_int8", None),
        ("avx512", avx512, None),
        ("avx512_vnni", f"{avx512} avx512_vnni", None),
        ("amx", f"{avx512} avx512_vnni amx_tile amx_int8", None),
    )
    return tuple(Level(name=name, flags=frozenset(flags.split()), emulated=cpu) for name, flags, cpu in rows)


LEVELS: Mapping[str, Sequence[Level]] = {
    "x86_64": _x86_levels(),
    "aarch64": (
        Level(name="neon", flags=frozenset({"asimd"}), emulated="cortex-a53"),
        Level(name="dotprod", flags=frozenset({"asimd", "asimddp"}), emulated="neoverse-n1"),
        Level(name="i8mm", flags=frozenset({"asimd", "asimddp", "i8mm"}), emulated="max"),
    ),
}
"""By architecture, the worst first (MLAS's platform.cpp)."""

CPUID = {
    "sse3": (0, 0),
    "ssse3": (0, 9),
    "fma": (0, 12),
    "sse4_1": (0, 19),
    "sse4_2": (0, 20),
    "osxsave": (0, 27),
    "avx": (0, 28),
    "f16c": (0, 29),
    "avx2": (1, 5),
    "avx512f": (1, 16),
    "avx512dq": (1, 17),
    "avx512bw": (1, 30),
    "avx512vl": (1, 31),
    "avx512_vnni": (2, 11),
    "amx_bf16": (3, 22),
    "amx_tile": (3, 24),
    "amx_int8": (3, 25),
    "avx_vnni": (4, 4),
    "avx512_bf16": (4, 5),
    "avx_vnni_int8": (5, 4),
    "avx_ne_convert": (5, 5),
}
"""Where an x86-64 processor says what it has: leaf 1 ecx, leaf 7 ebx, ecx, edx, leaf 7.1 eax, edx; and the bit."""
_SAID_OTHERWISE = frozenset({"sse3", "osxsave"})
"""Linux calls SSE3 ``pni``, and has no flag for OSXSAVE: it shows AVX only where it saves its registers."""


def has_level(level: Level, flags: Iterable[str]) -> bool:
    """Whether a processor with these flags can run the level's kernels."""
    return level.flags - _SAID_OTHERWISE <= frozenset(flags)


def level_of(arch: str, flags: Iterable[str]) -> Level:
    """The level whose kernels MLAS chooses on a processor with these flags."""
    have = frozenset(flags)
    return next((level for level in reversed(LEVELS[arch]) if has_level(level, have)), LEVELS[arch][0])


def hidden_bits(level: Level) -> tuple[int, ...]:
    """What cpuid must not say for MLAS to take an x86-64 processor for one of this level, register by register."""
    registers = [0] * 6
    for name, (register, bit) in CPUID.items():
        if name not in level.flags:
            registers[register] |= 1 << bit
    return tuple(registers)


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What this machine's processor has, by Linux's names; nothing where that cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    rows = (line.partition(":") for line in lines)
    return next(
        (frozenset(words.split()) for name, _, words in rows if name.strip() in ("flags", "Features")),
        frozenset(),
    )
