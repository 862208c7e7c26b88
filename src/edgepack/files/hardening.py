"""What an ELF file leaves to whoever finds a way into its memory."""

from pathlib import Path

from edgepack.errors import BundleError
from edgepack.files.elf import sound_elf
from edgepack.files.elf_reader import SHARED

PT_GNU_STACK, PT_GNU_RELRO = 0x6474E551, 0x6474E552
PF_EXECUTE, PF_WRITE = 1, 2
DT_TEXTREL, DT_BIND_NOW, DT_FLAGS, DT_FLAGS_1 = 22, 24, 30, 0x6FFFFFFB
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW = 4, 8, 1


def weaknesses(path: Path) -> tuple[str, ...]:
    """What a program or library lacks, in words; empty for one that is hardened.

    Hardened: loaded anywhere, its tables of addresses read-only once it is loaded (full RELRO), no memory that is both written and
    run, a stack that is not run, code that is not written to when it is loaded. Raises ``BundleError``.
    """
    with sound_elf(path) as file:
        tags = dict(file.dynamic())
        kinds = {segment.kind: segment for segment in file.segments}
        loads = file.loads
        kind = file.header[1]
    at_once = DT_BIND_NOW in tags or tags.get(DT_FLAGS, 0) & DF_BIND_NOW or tags.get(DT_FLAGS_1, 0) & DF_1_NOW
    stack = kinds.get(PT_GNU_STACK)
    lacks = {
        "it is loaded at one place only (no PIE)": kind != SHARED,
        "its tables of addresses can be written (no RELRO)": bool(tags) and PT_GNU_RELRO not in kinds,
        "its functions are looked up while it runs (no -z now)": bool(tags) and not at_once,
        "its stack can be run": stack is None or bool(stack.flags & PF_EXECUTE),
        "some of its memory can be written and run": any(
            segment.flags & PF_EXECUTE and segment.flags & PF_WRITE for segment in loads
        ),
        "its code is written to when it is loaded (text relocations)": DT_TEXTREL in tags
        or bool(tags.get(DT_FLAGS, 0) & DF_TEXTREL),
    }
    return tuple(words for words, found in lacks.items() if found)


def require_hardened(path: Path) -> None:
    """Raise ``BundleError`` for a file of our own linking that is not."""
    if lacks := weaknesses(path):
        raise BundleError(
            f"{path.name} is not hardened: {'; '.join(lacks)}",
            hint="this is a bug in the toolchain or in edgepack",
        )
