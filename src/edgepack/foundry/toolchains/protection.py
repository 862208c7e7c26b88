"""Branch protection: every function is compiled with a landing pad, those in assembly and what runs before ``main`` too."""

import re
from importlib.resources import files
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.foundry.patch import Patch
from edgepack.foundry.processor import BranchProtection, Processor
from edgepack.foundry.units import TREE

_MACROS = re.compile(r'^#include "asmmacro\.h".*$', re.M)


def protection_patches(processor: Processor, protection: BranchProtection) -> tuple[Patch, ...]:
    """How every unit of an archive is compiled for it: with its flags, MLAS's assembly with its instruction at each entry."""
    return (
        Patch(
            name="landing pads in assembly",
            file="protected.S",
            units="onnxruntime_mlas/*.S",
            must_find=(_MACROS,),
            rewrite=lambda text, _: _with_landing(text, protection),
            flags=(f"-I{TREE}/onnxruntime/onnxruntime/core/mlas/lib/{processor.name}",),
        ),
        Patch(name="branch protection", file="*", units="*", flags=protection.flags),
    )


def _with_landing(text: str, protection: BranchProtection) -> str:
    """Assembly in which MLAS's macro for a function's entry is defined anew."""
    entry = f"""
        .purgem FUNCTION_ENTRY
        .macro FUNCTION_ENTRY FunctionName
        .p2align 2
        .globl  \\FunctionName\\()
        .type   \\FunctionName\\(),%function
\\FunctionName\\():
        {protection.landing}
        .endm
"""
    return _MACROS.sub(lambda found: found[0] + entry, text, count=1)


def protected_start(
    compiler: list[str], protection: BranchProtection, *, identity: str, context: BuildContext
) -> Path:
    """Start code that runs before ``main``, assembled, from the store."""
    source = (files("edgepack.foundry.toolchains") / "data" / protection.start).read_text(encoding="utf-8")

    def assemble(folder: Path) -> None:
        text = context.work_dir / protection.start
        text.write_text(source, encoding="utf-8")
        context.run([*compiler, *protection.flags, "-c", text, "-o", folder / "start.o"])

    inputs = {"toolchain": identity, "source": source, "flags": " ".join(protection.flags)}
    return context.store.cached("libc-start", inputs, assemble) / "start.o"
