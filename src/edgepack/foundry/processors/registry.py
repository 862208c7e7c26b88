"""Processors by name: edgepack's own, and those of plugins' platforms, which are loaded only for others than ours."""

from edgepack.context import BuildContext
from edgepack.foundry.platforms import platforms
from edgepack.foundry.processor import Processor
from edgepack.foundry.processors.aarch64 import AARCH64
from edgepack.foundry.processors.x86_64 import X86_64

OWN = {processor.name: processor for processor in (X86_64, AARCH64)}


def find_processor(arch: str, *, context: BuildContext) -> Processor | None:
    """Processor of Linux by its name as ``platform.machine()`` says it; ``None`` for unknown ones."""
    if arch in OWN:
        return OWN[arch]
    known = (found.processor for _, found in platforms(context.extensions("platform")))
    return next((processor for processor in known if processor and processor.name == arch), None)
