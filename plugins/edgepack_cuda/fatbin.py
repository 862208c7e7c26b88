"""Fat binaries: the device code in a library, one a translation unit, each with code for several architectures.

``.nv_fatbin`` is a run of them. The format is not documented; it was read off libraries of CUDA 12 and 13: a header (magic,
version, header size, content size), then entries (kind, version, header size, padded size, compressed size, …,
architecture, …, flags, …, size when unpacked). Whatever does not look like that is an error, never skipped.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from edgepack.api import BundleError
from edgepack.files.elf_reader import ELF64

MAGIC = 0xBA55ED50
SECTION = ".nv_fatbin"
HEADER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQI4xHHI8xQ8xQ")
"""Kind, version, header size, padded size, compressed size, minor, major, architecture, flags, size unpacked."""
KINDS: dict[int, Literal["ptx", "cubin"]] = {1: "ptx", 2: "cubin"}
ZSTD, SPECIFIC = 0x8000, 0x100000
"""Flags: packed with zstd, for one architecture alone (``sm_90a``)."""
ALIGNMENT = 8
NOBODYS = 110
"""Compute capability 11.0, of computers on modules (Jetson Thor) whose processor is an Arm: none that these libraries meet."""


def _no_code() -> bytes:
    """An entry for ``NOBODYS``: a cubin of no kernel, with nothing but the table of its sections' names."""
    names = b"\0.shstrtab".ljust(16, b"\0")
    head = ELF64.header.pack(
        *(b"\x7fELF\x02\x01\x01\x41\x08", 2, 190, 1, 0, 0, 64 + len(names)),
        *(NOBODYS << 8 | 2, 64, 56, 0, 64, 2, 1),
    )
    table = bytes(64) + ELF64.section.pack(1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    cubin = head + names + table
    return ENTRY.pack(2, 0x101, ENTRY.size, len(cubin), 0, 8, 1, NOBODYS, 0x11, 0) + cubin


NO_CODE = _no_code()
"""What is left in a unit of which nothing is kept.

So that the driver finds there what it finds in half of the units of a released library: code for other GPUs only (292 of
ONNX Runtime 1.31.1's 609 units are for 9.0 alone). No compiler makes a fat binary without any entry, while nvcc itself
links a cubin without any kernel into each library.
"""


@dataclass(frozen=True, kw_only=True)
class Code:
    """One entry of a fat binary."""

    kind: Literal["ptx", "cubin"]
    architecture: str
    """e.g. ``86``; ``90a`` for code that runs on 9.0 alone."""
    offset: int
    """Of the entry's header in the section."""
    head: int
    """Bytes of the header."""
    size: int
    """Bytes of header and content."""
    packed: int
    """Bytes of the content as it is packed; 0: it is not."""
    unpacked: int
    flags: int

    def sha256(self, section: bytes) -> str:
        """Digest of header and content as they lie in the section."""
        return hashlib.sha256(section[self.offset : self.offset + self.size]).hexdigest()

    def content(self, section: bytes) -> bytes:
        """The cubin or PTX itself. Raises ``BundleError`` for a packing that is not known, or damaged content."""
        start = self.offset + self.head
        if not self.packed:
            return section[start : self.offset + self.size]
        if not self.flags & ZSTD:
            raise BundleError(
                "the device code uses a compression of older CUDA versions, which is not supported"
            )
        import zstandard

        try:
            return zstandard.ZstdDecompressor().decompress(
                section[start : start + self.packed], max_output_size=self.unpacked
            )
        except zstandard.ZstdError as error:
            raise BundleError(f"device code at {self.offset:#x} is damaged: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Fatbin:
    """The device code of one translation unit."""

    index: int
    offset: int
    """In the section."""
    size: int
    """With its header."""
    codes: tuple[Code, ...]

    @property
    def architectures(self) -> tuple[str, ...]:
        return tuple(sorted({code.architecture for code in self.codes}, key=architecture_key))


def architecture_key(architecture: str) -> tuple[int, str]:
    return int(architecture.rstrip("af")), architecture


def read_fatbins(section: bytes) -> tuple[Fatbin, ...]:
    """The fat binaries of a ``.nv_fatbin`` section. Raises ``BundleError`` where it is not what it should be."""
    found: list[Fatbin] = []
    at = 0
    while at < len(section):
        if not any(section[at : at + ALIGNMENT]):
            at += ALIGNMENT  # between two that were pruned in their places
            continue
        magic, version, head, size = _unpack(HEADER, section, at)
        if magic != MAGIC or version != 1 or head != HEADER.size:
            raise BundleError(f"the device code at {at:#x} of {SECTION} is of an unknown kind")
        end = at + head + size
        if end > len(section):
            raise BundleError(f"the device code at {at:#x} of {SECTION} is truncated")
        codes = tuple(_codes(section, at + head, end))
        found.append(Fatbin(index=len(found), offset=at, size=end - at, codes=codes))
        at = end
    return tuple(found)


def _codes(section: bytes, at: int, end: int) -> Iterator[Code]:
    while at < end:
        if section.startswith(NO_CODE, at):
            at += len(NO_CODE)
            continue
        kind, _, head, size, packed, _, _, architecture, flags, unpacked = _unpack(ENTRY, section, at)
        if kind not in KINDS or head < ENTRY.size or at + head + size > end:
            raise BundleError(f"an entry at {at:#x} of {SECTION} is of an unknown kind, or truncated")
        suffix = "a" if flags & SPECIFIC else ""
        yield Code(
            kind=KINDS[kind],
            architecture=f"{architecture}{suffix}",
            offset=at,
            head=head,
            size=head + size,
            packed=packed,
            unpacked=unpacked,
            flags=flags,
        )
        at += head + size


def _unpack(form: struct.Struct, section: bytes, at: int) -> tuple[int, ...]:
    try:
        return form.unpack_from(section, at)
    except struct.error as error:
        raise BundleError(f"the device code at {at:#x} of {SECTION} is truncated") from error


def only(fatbins: tuple[Fatbin, ...], keep: Callable[[Fatbin, Code], bool]) -> tuple[Fatbin, ...]:
    """The same fat binaries with only the code that is to be kept; one of which nothing is kept stays, without code."""
    return tuple(
        replace(fatbin, codes=tuple(code for code in fatbin.codes if keep(fatbin, code)))
        for fatbin in fatbins
    )


def fatbin_bytes(section: bytes, fatbin: Fatbin) -> bytes:
    """A fat binary of just its ``codes``: what the CUDA runtime reads, whatever came after it before.

    Never larger than it was: one that was too small for ``NO_CODE`` is left without any entry.
    """
    content = b"".join(section[code.offset : code.offset + code.size] for code in fatbin.codes)
    if not content and HEADER.size + len(NO_CODE) <= fatbin.size:
        content = NO_CODE
    return HEADER.pack(MAGIC, 1, HEADER.size, len(content)) + content
