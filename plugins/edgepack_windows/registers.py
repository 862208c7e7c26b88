"""The registers that Linux keeps a thread's memory by: Windows keeps others there, and nothing in one of them."""

import re
from pathlib import Path

from edgepack.api import BundleError
from edgepack.api.axes import disassembler
from edgepack.api.kit import read_elf

READ = re.compile(r"\b[fg]s:\[(0x)?[0-9a-f]+\]")
"""At a place that stands in the instruction, as the thread's own address and the stack protector's number are read."""


def require_no_thread_register(program: Path) -> None:
    """Raise ``BundleError`` for machine code that reads memory by such a register; wine would not notice."""
    file = read_elf(program.read_bytes())
    reader = disassembler("CS_ARCH_X86", "CS_MODE_64")
    for section in file.code:
        for address, _, name, operands in reader.disasm_lite(file.data(section), section.address):
            if READ.search(operands):
                raise BundleError(
                    f"{program.name} reads {operands} at {address:#x} ({name}), which is nothing under Windows",
                    hint="this is a bug in edgepack",
                )
