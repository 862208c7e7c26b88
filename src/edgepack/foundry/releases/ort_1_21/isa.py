"""Instruction sets that devices are known to have: MLAS's kernels for others are left out.

A target that names some, ``isa = ["avx2", "avx512_vnni"]``, says that its devices have at least what all of these
imply (here AVX2: the floor), and that kernels beyond those named are not worth their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from edgepack.errors import UsageError
from edgepack.foundry.releases.ort_1_21.dispatch import ASSIGNMENT
from edgepack.foundry.releases.ort_1_21.feature_levels import LEVELS, hidden_bits

IMPLIED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "x86_64": {
        "sse2": (),
        "avx": ("sse2",),
        "avx2": ("avx", "sse2"),
        "avx_vnni": ("avx2", "avx", "sse2"),
        "avx_vnni_int8": ("avx_vnni", "avx2", "avx", "sse2"),
        "avx512": ("avx2", "avx", "sse2"),
        "avx512_vnni": ("avx512", "avx2", "avx", "sse2"),
        "amx": ("avx512_vnni", "avx512", "avx2", "avx", "sse2"),
    },
    "aarch64": {"neon": (), "dotprod": ("neon",), "i8mm": ("dotprod", "neon")},
}
"""What can be named, and what is meant with it."""

_CHECKS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "x86_64": {
        "avx": (r"\(xcr0 & 0x6\) == 0x6",),
        "avx2": (r"\(\(Cpuid1\[2\] & 0x1000\) != 0\) && \(\(Cpuid7\[1\] & 0x20\) != 0\)",),
        "avx_vnni": (r"\(Cpuid7_1\[0\] & 0x10\) != 0",),
        "avx_vnni_int8": (r"\(Cpuid7_1\[3\] & 0x10\) != 0",),
        "avx512": (r"\(\(Cpuid7\[1\] & 0x10000\) != 0\)", r"\(Cpuid7\[1\] & 0xC0020000\) == 0xC0020000"),
        "avx512_vnni": (r"\(Cpuid7\[2\] & 0x800\) != 0",),
        "amx": (r"\(Cpuid7\[3\] & 0b1 << 24\) != 0",),
    },
    "aarch64": {
        "dotprod": (r"HasDotProductInstructions\)",),
        "i8mm": (r"MLAS_CPUIDINFO::GetCPUIDInfo\(\)\.HasArmNeon_I8MM\(\)",),
    },
}
"""How MLAS's platform.cpp asks the processor, in its order."""
_BLOCK = r"[^{]*\{(?P<block>.*?)(?=\bif \(|\n\s*\})"
"""What is set whenever the processor has it: up to the next question."""
_CONSTRUCTOR = re.compile(r"^MLAS_PLATFORM::MLAS_PLATFORM\((?P<head>.*?)^\{", re.M | re.S)
_HARDWARE_CAPABILITIES = {"dotprod": ("AT_HWCAP", 20), "i8mm": ("AT_HWCAP2", 13)}
"""Where Linux says what an arm64 processor has (asm/hwcap.h)."""


def check_isa(names: Iterable[str], arch: str) -> tuple[str, ...]:
    """The instruction sets, sorted, with all that they imply; none: whatever the device has. Raises ``UsageError``."""
    named = set(names)
    known = IMPLIED.get(arch, {})
    if unknown := sorted(named - known.keys()):
        raise UsageError(
            f"no kernels are chosen by {', '.join(unknown)} on {arch}",
            hint=f"isa may name {', '.join(known)}" if known else "leave isa out",
        )
    return tuple(sorted(named.union(*(known[name] for name in named))))


def isa_floor(names: Iterable[str], arch: str) -> str | None:
    """The best that all of these imply, which every device then has to have; None when nothing is named."""
    implied = [{name, *IMPLIED[arch][name]} for name in names]
    common = set[str]().union(*implied).intersection(*implied)
    return max(common, key=list(IMPLIED[arch]).index, default=None)


def isa_levels(names: Iterable[str], arch: str) -> tuple[str, ...]:
    """The kinds of processors that a library with these kernels runs on: the floor and all above it; sorted."""
    named = tuple(names)
    floor = isa_floor(named, arch)
    below = IMPLIED[arch][floor] if floor else ()
    return tuple(name for name in check_isa(named, arch) if name not in below)


def required_flags(names: Iterable[str], arch: str) -> tuple[str, ...]:
    """What a processor must have, as Linux calls it in /proc/cpuinfo, beyond what every processor has; sorted."""
    floor = isa_floor(names, arch)
    flags: Collection[str] = next((each.flags for each in LEVELS[arch] if each.name == floor), ())
    return tuple(sorted(set(flags) - {"sse3", "osxsave", "asimd"}))


def restrict_isa(source: str, names: Collection[str], arch: str) -> str:
    """``platform.cpp`` for processors that have these instruction sets and use no others; lines stay.

    Kernels of what is not named are never chosen; those that the floor's always replace are not set; and on a
    processor below the floor the library says so and aborts, where it would end on an invalid instruction.
    """
    floor = isa_floor(names, arch)
    if floor is None:
        return source
    kept, certain = check_isa(names, arch), check_isa([floor], arch)
    for name, checks in _CHECKS[arch].items():
        if not all(re.search(rf"if \({check}", source) for check in checks):
            raise ValueError(f"no check for {name} in this source")
        if name not in kept:
            source = re.sub(rf"if \((?={checks[0]})", "if (false && ", source)
        # Whether the system lets a process use AMX is known when it is asked.
        elif name in certain and name != "amx":
            for check in checks:
                source = _without_replaced(source, check)
    return _guarded(source, floor, arch)


def _without_replaced(source: str, check: str) -> str:
    """Without what was set before a check that always holds, and is set again there."""
    found = re.search(rf"if \({check}{_BLOCK}", source, re.S)
    assert found is not None
    replaced = {match["entry"] for match in ASSIGNMENT.finditer(found["block"])}

    def drop(match: re.Match[str]) -> str:
        return match["indent"] + ";" if match["entry"] in replaced else match[0]

    return ASSIGNMENT.sub(drop, source[: found.start()]) + source[found.start() :]


def _guarded(source: str, floor: str, arch: str) -> str:
    """With a constructor that looks first whether the processor has the floor."""
    conditions = " && ".join(_conditions(floor, arch))
    if not conditions:
        return source
    message = f"this ONNX Runtime is made for processors with {floor}, which this one lacks\\n"
    look = (
        f'static void RequireFloor() {{ if (!({conditions})) {{ fputs("{message}", stderr); abort(); }} }} '
        if arch == "aarch64"
        else _X86_LOOK.format(wanted=conditions, message=message)
    )
    found = _CONSTRUCTOR.search(source)
    if found is None:
        raise ValueError("no constructor of MLAS_PLATFORM in this source")
    head = "".join(f"#include <{name}>\n" for name in _INCLUDES[arch])
    constructor = f"{look}MLAS_PLATFORM::MLAS_PLATFORM({found['head']}{{ RequireFloor();"
    # Line numbers are those of upstream's file from its first line on.
    return f"{head}#line 1\n{source[: found.start()]}{constructor}{source[found.end() :]}"


_INCLUDES = {"x86_64": ("cpuid.h", "cstdio", "cstdlib"), "aarch64": ("sys/auxv.h", "cstdio", "cstdlib")}
_X86_LOOK = (
    "static void RequireFloor() {{ "
    "const unsigned wanted[6] = {{{wanted}}}; unsigned has[6] = {{}}, a, b, c, d; "
    "__get_cpuid(1, &a, &b, &has[0], &d); "
    "__get_cpuid_count(7, 0, &a, &has[1], &has[2], &has[3]); "
    "__get_cpuid_count(7, 1, &has[4], &b, &c, &has[5]); "
    'for (int i = 0; i < 6; ++i) if ((has[i] & wanted[i]) != wanted[i]) {{ fputs("{message}", stderr); abort(); }} }} '
)


def _conditions(floor: str, arch: str) -> Iterator[str]:
    """What has to hold on a device with the floor: for x86-64 the bits of cpuid, for arm64 the system's flags."""
    if arch == "x86_64":
        level = next(level for level in LEVELS[arch] if level.name == floor)
        lowest, hidden = hidden_bits(LEVELS[arch][0]), hidden_bits(level)
        wanted = [all_bits & ~bits for all_bits, bits in zip(lowest, hidden, strict=True)]
        if any(wanted):
            yield ", ".join(f"{bits:#x}" for bits in wanted)
        return
    for name, (vector, bit) in _HARDWARE_CAPABILITIES.items():
        if name == floor or name in IMPLIED[arch][floor]:
            yield f"(getauxval({vector}) >> {bit} & 1)"
