"""MLAS's choice of kernels, for devices that are known to have some instruction sets and not worth others.

Kernels of what is not named are never chosen; those that the floor's always replace are not set; and on a processor
below the floor the library says so and aborts, where it would end on an invalid instruction.
"""

import re
from collections.abc import Iterator, Mapping

from edgepack.foundry.patch import KERNEL_TABLE, Patch, RuntimeRequest
from edgepack.foundry.releases.ort_1_21.dispatch import ASSIGNMENT, CONSTRUCTOR, PLATFORM, PLATFORM_UNITS
from edgepack.foundry.releases.ort_1_21.levels import LEVELS

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
_BODY = re.compile(rf"{CONSTRUCTOR.pattern}(?P<head>.*?)^\{{", re.M | re.S)
_HARDWARE_CAPABILITIES = {"dotprod": ("AT_HWCAP", 20), "i8mm": ("AT_HWCAP2", 13)}
"""Where Linux says what an arm64 processor has (asm/hwcap.h)."""


def restrict_isa(source: str, request: RuntimeRequest) -> str:
    """``platform.cpp`` for processors that have the request's instruction sets and use no others; lines stay."""
    arch = request.arch
    floor = LEVELS.floor(request.isa, arch)
    if floor is None:
        return source
    kept, certain = LEVELS.check(request.isa, arch), LEVELS.check([floor], arch)
    for name, checks in _CHECKS[arch].items():
        if name not in kept:
            source = re.sub(rf"if \((?={checks[0]})", "if (false && ", source)
        # Whether the system lets a process use AMX is known when it is asked.
        elif name in certain and name != "amx":
            for check in checks:
                source = _without_replaced(source, check)
    return _guarded(source, floor, arch)


def isa_patch(arch: str) -> Patch:
    """The choice of kernels on one architecture."""
    return Patch(
        name=f"instruction sets of {arch}",
        file=PLATFORM,
        units=PLATFORM_UNITS,
        applies=lambda request: bool(request.isa) and request.arch == arch,
        must_find=(
            _BODY,
            *(re.compile(rf"if \({check}") for checks in _CHECKS[arch].values() for check in checks),
        ),
        rewrite=restrict_isa,
        trim=KERNEL_TABLE,
        gives="size",
    )


def _without_replaced(source: str, check: str) -> str:
    """Without what was set before a check that always holds, and is set again there."""
    found = re.search(rf"if \({check}{_BLOCK}", source, re.S)
    if found is None:
        return source
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
    found = _BODY.search(source)
    if found is None:
        return source
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
    """Conditions on a device with the floor: for x86-64 the bits of cpuid, for arm64 the system's flags."""
    if arch == "x86_64":
        lowest, hidden = LEVELS.on(arch)[0].hidden_bits(), LEVELS.named(floor, arch).hidden_bits()
        wanted = [all_bits & ~bits for all_bits, bits in zip(lowest, hidden, strict=True)]
        if any(wanted):
            yield ", ".join(f"{bits:#x}" for bits in wanted)
        return
    for name, (vector, bit) in _HARDWARE_CAPABILITIES.items():
        if name == floor or name in LEVELS.named(floor, arch).implies:
            yield f"(getauxval({vector}) >> {bit} & 1)"
