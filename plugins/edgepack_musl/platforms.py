"""The platforms: edgepack's processors, with musl in the place of the device's glibc, or inside libraries for any."""

import re
from dataclasses import replace

from edgepack.api.axes import AARCH64, X86_64, LinuxPlatform, Processor
from edgepack.api.kit import Patch
from edgepack_armv7.api import ARMV7L
from edgepack_musl.any_libc import AnyLibc
from edgepack_musl.libc import Musl

_EXECINFO = re.compile(r"^#include <execinfo\.h>$", re.M)
NO_STACK_TRACES = Patch(
    name="no execinfo.h",
    file="core/platform/posix/stacktrace.cc",
    units="onnxruntime_common/*/platform/posix/stacktrace.cc",
    must_find=(_EXECINFO,),
    rewrite=lambda text, _: _EXECINFO.sub("", text),
)
"""musl has none; what it is included for is in debug builds only."""
MUSL = Musl()
WIDE_SIZES = "-D__builtin_clzl=__builtin_clzll"
"""For 32 bits: malloc.c counts the zeros before a size as those of 64. A flag and not another text, since kernel archives of the
other processors are found by the text."""


def x86_64() -> LinuxPlatform:
    return replace(_with_musl(X86_64), any_libc=_with_musl(X86_64, AnyLibc()))


def aarch64() -> LinuxPlatform:
    # zig compiles musl without landing pads.
    processor = replace(AARCH64, protection=None)
    # Android keeps the place of a second stack in that register.
    fixed = replace(processor, flags=("-ffixed-x18",), variant="fixed-x18")
    libc = AnyLibc(flags=("-ffixed-x18",), cpu="baseline+reserve_x18")
    return replace(_with_musl(processor), any_libc=_with_musl(fixed, libc))


def armv7l() -> LinuxPlatform:
    return _with_musl(ARMV7L, Musl(flags=("-mcpu=cortex_a7", WIDE_SIZES)))


def _with_musl(processor: Processor, libc: Musl = MUSL) -> LinuxPlatform:
    own = replace(
        processor,
        triple=processor.triple.replace("-gnu", "-musl"),
        loader="",
        patches=(*processor.patches, NO_STACK_TRACES),
    )
    return LinuxPlatform(processor=own, libc="musl", c_library=libc)
