"""Instruction sets that a finished library asks of every processor it is loaded on, read from its machine code.

MLAS's kernels may use what they like: they run only where MLAS finds the processor to have it. Everything else,
start-up code and string functions included, has to be of the floor. The linker's map says which object a piece of
code is of; an inline function is a special case, since the one copy that is kept may be a kernel object's.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgepack.errors import FloorError
from edgepack.files.elf import sound_elf
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.processor import MachineCode, Processor
from edgepack.foundry.units import Unit


@dataclass(frozen=True, kw_only=True)
class Use:
    """An instruction set that a piece of code uses beyond its architecture's baseline."""

    feature: str
    file: str
    section: str
    instruction: str


def beyond_baseline(library: Path, pieces: Iterable[Piece], read: MachineCode) -> Iterator[Use]:
    """Instructions beyond the baseline in these pieces of a library, as ``read`` finds them, each instruction set once a piece."""
    with sound_elf(library) as file:
        code = [(section.address, file.data(section)) for section in file.code]
    for piece in pieces:
        for address, data in code:
            if address <= piece.address < address + len(data):
                start = piece.address - address
                found: dict[str, str] = {}
                for feature, instruction in read(data[start : start + piece.size]):
                    found.setdefault(feature, instruction)
                for feature, instruction in sorted(found.items()):
                    yield Use(
                        feature=feature, file=piece.file, section=piece.section, instruction=instruction
                    )


def is_dispatched(unit: Unit) -> bool:
    """Whether a unit's functions run only where MLAS found the processor to have what they use."""
    return unit.name.startswith("onnxruntime_mlas/") and (
        unit.language == "ASM"
        or any(flag.startswith(("-mavx", "-mamx", "-mfma", "-msse", "-march=")) for flag in unit.flags)
    )


def check_instructions(
    library: Path, pieces: Iterable[Piece], processor: Processor, *, is_kernel: Callable[[Piece], bool]
) -> None:
    """Raises ``FloorError`` for code outside MLAS's kernels that asks for more than every processor has.

    ``is_kernel`` is true of pieces that run only where MLAS chose them: not of an inline function that other objects
    have too, since the linker keeps one copy for all.
    """
    if processor.beyond_baseline is None:
        return
    plain = [piece for piece in pieces if piece.size and not is_kernel(piece)]
    for use in beyond_baseline(library, plain, processor.beyond_baseline):
        # Its atomic operations look at the processor themselves.
        if not (use.feature == "atomics" and "libcompiler_rt" in use.file):
            raise FloorError(
                f"{library.name} would need {use.feature} of every processor: {use.instruction} "
                f"in {use.section} of {use.file}",
                hint="this is a bug in edgepack; please report it with the model and the target",
            )
