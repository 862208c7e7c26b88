"""Pruning a finished library: only the device code that one kind of GPU, and one kind of model, asks for.

Every fat binary stays where it begins, cut down to what is kept, and no relocation is touched. What is left are zeros, which
then come out of the file (``image.punch``). The result is read again and compared before anyone gets it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from edgepack.api import BundleError, TargetError
from edgepack.files.elf_reader import ELF64, ElfSection
from edgepack_cuda.fatbin import SECTION, Code, Fatbin, architecture_key, fatbin_bytes, only, read_fatbins
from edgepack_cuda.image import Image, memory_of, punch, read_image
from edgepack_cuda.nvidia import dotted

CUDA_MACHINE = 190
"""``EM_CUDA``."""


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """A library with less device code, and what was kept of it."""

    content: bytes
    architectures: tuple[str, ...]
    units: int
    """Translation units that still have code."""
    units_before: int
    code_bytes: int
    code_bytes_before: int
    blobs_dropped: int = 0
    """Cubins among the constants that went, too."""

    def in_words(self) -> str:
        return (
            f"device code for {', '.join(self.architectures)}: {self.units} of {self.units_before} translation units, "
            f"{self.code_bytes / 1e6:.1f} of {self.code_bytes_before / 1e6:.1f} MB (punch)"
        )


def runs_on(code: str, architecture: str) -> bool:
    """Whether code for one architecture runs on devices of another: ``80`` on ``86``, ``90a`` on ``90`` alone.

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
    """
    have, want = architecture_key(code)[0], architecture_key(architecture)[0]
    if code.endswith("a"):
        return have == want
    return have // 10 == want // 10 and have <= want


def chosen(fatbin: Fatbin, architectures: Collection[str], *, nearest: bool = True) -> tuple[Code, ...]:
    """The code of a unit that the CUDA runtime would take on devices of these architectures.

    For each the nearest cubin that runs there (with ``nearest`` false, all that do); where none does, the newest PTX that
    can be compiled for it.
    """
    kept: set[Code] = set()
    for architecture in architectures:
        want = architecture_key(architecture)[0]
        fitting = [c for c in fatbin.codes if c.kind == "cubin" and runs_on(c.architecture, architecture)]
        if not nearest:
            kept.update(fitting)
        if not fitting:
            fitting = [
                c for c in fatbin.codes if c.kind == "ptx" and architecture_key(c.architecture)[0] <= want
            ]
        if fitting:
            best = max(architecture_key(code.architecture) for code in fitting)
            # Two for one architecture: a unit that was compiled in two parts; both stay.
            kept.update(code for code in fitting if architecture_key(code.architecture) == best)
    return tuple(code for code in fatbin.codes if code in kept)


def device_code(image: Image, name: str) -> tuple[ElfSection, bytes, tuple[Fatbin, ...]]:
    """Section, content and fat binaries of a library. Raises ``BundleError`` for one without device code."""
    section = image.section(SECTION)
    if section is None:
        raise BundleError(
            f"{name} holds no device code: it has no {SECTION}",
            hint="it was compiled without CUDA, or loads its kernels from another file",
        )
    content = image.memory(section.address, section.size)
    return section, content, read_fatbins(content)


def require_architectures(fatbins: Sequence[Fatbin], architectures: Collection[str], name: str) -> None:
    """Raise ``TargetError`` for an architecture that no code in the library runs on."""
    present = sorted({each for fatbin in fatbins for each in fatbin.architectures}, key=architecture_key)
    for architecture in architectures:
        if not architecture.rstrip("a").isdigit():
            raise TargetError(
                f"{architecture!r} is not an architecture", hint="a compute capability, e.g. 8.6"
            )
        if not any(chosen(fatbin, [architecture]) for fatbin in fatbins):
            raise TargetError(
                f"{name} has no code that runs on compute capability {dotted(architecture)}",
                hint=f"it has code for {', '.join(map(dotted, present))}, which runs on devices of the same major version "
                "and the same or a higher minor one (9.0a on 9.0 alone); use another ONNX Runtime for other GPUs",
            )


def prune(
    content: bytes | bytearray,
    name: str,
    *,
    architectures: Sequence[str],
    units: Collection[int] | None = None,
    blobs: bool = True,
    nearest: bool = True,
) -> Pruned:
    """A library with the code for ``architectures`` of the translation units ``units`` (indices; ``None``: all).

    ``blobs`` says whether cubins that lie among the constants are kept where they run on the architectures; without
    it all of them go. ``nearest`` keeps only the code that the CUDA runtime chooses; a library that chooses itself, as
    cuBLAS does, needs that for lower capabilities of the same major version, too
    (https://docs.nvidia.com/cuda/cublas/index.html#nvprune). Raises ``TargetError`` for an architecture that there is no code for, and ``BundleError`` for a
    library that is not understood, or when what was made is not what it should be.
    """
    image = read_image(content, name)
    section, code, fatbins = device_code(image, name)
    require_architectures(fatbins, architectures, name)
    wanted = {
        (fatbin.index, kept.offset)
        for fatbin in fatbins
        if units is None or fatbin.index in units
        for kept in chosen(fatbin, architectures, nearest=nearest)
    }
    kept = only(fatbins, lambda fatbin, each: (fatbin.index, each.offset) in wanted)
    _rewrite(image, section, code, kept)
    dropped = _drop_blobs(image, architectures if blobs else ())
    small = punch(image)
    _prove(small, image, section, code, kept, name)
    return Pruned(
        content=small,
        architectures=tuple(sorted({c.architecture for f in kept for c in f.codes}, key=architecture_key)),
        units=sum(bool(fatbin.codes) for fatbin in kept),
        units_before=len(fatbins),
        code_bytes=sum(each.size for fatbin in kept for each in fatbin.codes),
        code_bytes_before=sum(fatbin.size for fatbin in fatbins),
        blobs_dropped=dropped,
    )


def _rewrite(image: Image, section: ElfSection, code: bytes, kept: Sequence[Fatbin]) -> None:
    """Change the section in place: each fat binary begins where it did."""
    changed = bytearray(section.size)
    for fatbin in kept:
        content = fatbin_bytes(code, fatbin)
        changed[fatbin.offset : fatbin.offset + len(content)] = content
    _write(image, section.address, changed)


def _write(image: Image, address: int, content: bytes | bytearray) -> None:
    """Put bytes into memory that all of comes from the file."""
    for segment in image.loads:
        first = max(address, segment.address)
        last = min(address + len(content), segment.address + segment.in_file)
        if first < last:
            start = segment.offset + first - segment.address
            image.content[start : start + last - first] = content[first - address : last - address]


def blobs_of(image: Image) -> Iterator[tuple[int, int, str]]:
    """Address, size and architecture of the cubins that lie among a library's constants."""
    section = image.section(".rodata")
    if section is None:
        return
    content = image.memory(section.address, section.size)
    at = content.find(b"\x7fELF")
    while at >= 0:
        size = _cubin_size(content, at)
        if size:
            # Bits 8 to 15 of e_flags since CUDA 13's ELF version, the lowest byte before it, say the architecture.
            flags = int.from_bytes(content[at + 48 : at + 52], "little")
            yield section.address + at, size, str(flags >> 16 & 0xFF)
        at = content.find(b"\x7fELF", at + max(size, 4))


def _cubin_size(content: bytes, at: int) -> int:
    """Bytes of the cubin that begins there; 0 for anything else."""
    if len(content) < at + ELF64.header.size:
        return 0
    header = ELF64.header.unpack_from(content, at)
    if header[2] != CUDA_MACHINE:
        return 0
    end = max(header[5] + header[9] * header[10], header[6] + header[11] * header[12])
    return end if at + end <= len(content) else 0


def _drop_blobs(image: Image, architectures: Collection[str]) -> int:
    dropped = 0
    for address, size, have in list(blobs_of(image)):
        if not any(runs_on(have, architecture) for architecture in architectures):
            _write(image, address, bytes(size))
            dropped += 1
    return dropped


def _prove(
    small: bytes, changed: Image, section: ElfSection, code: bytes, kept: Sequence[Fatbin], name: str
) -> None:
    """Read the result again, and compare: the same memory as the changed file, and every kept piece of code as it was."""
    again = read_image(small, name)
    # Not the header of the file, which says where the program headers are.
    if memory_of(again)[ELF64.header.size :] != memory_of(changed)[ELF64.header.size :]:
        raise BundleError(f"pruning {name} changed what is not device code", hint="please report the library")
    section_again, code_again, fatbins = device_code(again, name)
    before = {(f.offset, each.sha256(code)) for f in kept for each in f.codes}
    after = {(f.offset, each.sha256(code_again)) for f in fatbins for each in f.codes}
    if before != after or section_again.address != section.address:
        raise BundleError(f"pruning {name} changed code that is kept", hint="please report the library")
