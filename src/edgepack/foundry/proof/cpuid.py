"""A copy of a file that does not ask the processor what it has: what is loaded first answers (``hide_cpuid.h``, ``hide_cpuid.c``)."""

from collections.abc import Iterator
from pathlib import Path

from edgepack.errors import ProofError
from edgepack.files.elf_reader import Elf, ElfError, read_elf
from edgepack.foundry.processors.disassembler import disassembler
from edgepack.foundry.processors.x86_64 import CAPSTONE

CPUID, INVALID = b"\x0f\xa2", b"\x0f\x0b"
"""cpuid, and ud2, which is as long."""
ASKS, HIDES = b"\0getauxval\0", b"\0hideauxva\0"
"""What programs for arm64 call, and what no C library has: without an answer the copy does not start."""


def replace_cpuid(file: Path, copy: Path) -> None:
    """Write the copy, with the file's mode; it differs in the second byte of each cpuid and in nothing else.

    Raises ``ProofError`` when there is none.
    """
    content = bytearray(file.read_bytes())
    try:
        found = list(_places(read_elf(content)))
    except ElfError as error:
        raise ProofError(f"{file.name} is not a valid ELF file: {error}") from error
    if not found:
        raise ProofError(f"{file.name} does not ask what the processor has")
    for at in found:
        content[at : at + 2] = INVALID
    copy.write_bytes(content)
    copy.chmod(file.stat().st_mode)


def replace_getauxval(file: Path, copy: Path) -> None:
    """Write the copy of an arm64 file, with its mode; it calls another function. Raises ``ProofError`` when it does not ask."""
    content = file.read_bytes()
    if ASKS not in content:
        raise ProofError(f"{file.name} does not ask what the processor has")
    copy.write_bytes(content.replace(ASKS, HIDES))
    copy.chmod(file.stat().st_mode)


def _places(file: Elf[bytearray]) -> Iterator[int]:
    """Offsets of the file's cpuid instructions."""
    for section in file.code:
        code = disassembler(*CAPSTONE).disasm_lite(file.data(section), section.offset)
        yield from (at for at, _, name, _ in code if name == "cpuid")
