"""A copy of an x86-64 library that asks the proof's program, not the processor, what the processor has."""

from __future__ import annotations

from pathlib import Path

from edgepack.errors import ProofError
from edgepack.foundry.link.instructions import disassembler

CPUID, INVALID = b"\x0f\xa2", b"\x0f\x0b"
"""cpuid, and ud2, which is as long."""


def ask_the_program(library: Path, copy: Path) -> None:
    """Write the copy; it differs from the library in the second byte of each cpuid and in nothing else.

    Raises ``ProofError`` when there is none.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    content = bytearray(library.read_bytes())
    try:
        with library.open("rb") as stream:
            text = ELFFile(stream).get_section_by_name(".text")
            start, code = (text["sh_offset"], text.data()) if text else (0, b"")
    except ELFError as error:
        raise ProofError(f"{library.name} is not a sound library: {error}") from error
    found = [at for at, _, name, _ in disassembler("x86_64").disasm_lite(code, start) if name == "cpuid"]
    if not found:
        raise ProofError(f"{library.name} does not ask what the processor has")
    for at in found:
        content[at : at + 2] = INVALID
    copy.write_bytes(content)
