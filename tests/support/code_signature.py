"""The signature in a Mach-O file, as Apple's cs_blobs.h lays it out, read by none of edgepack's code: whether it is of these very bytes."""

import hashlib
import struct
from dataclasses import dataclass

SIGNATURE_COMMAND, SUPER_BLOB, CODE_DIRECTORY = 0x1D, 0xFADE0CC0, 0xFADE0C02
AD_HOC, SHA256 = 0x2, 2


@dataclass(frozen=True)
class CodeDirectory:
    """What the system compares when it loads pages of a program."""

    identifier: str
    ad_hoc: bool
    limit: int
    """Bytes of the file that it covers: all before the signature."""
    pages: int
    wrong: tuple[int, ...]
    """Pages whose digest is another."""


def code_directory(content: bytes) -> CodeDirectory | None:
    """Of a file of 64 bits for one processor; ``None``: it is not signed."""
    magic, _, _, _, count, _, _, _ = struct.unpack_from("<8I", content)
    assert magic == 0xFEEDFACF
    at, found = 32, None
    for _ in range(count):
        command, size = struct.unpack_from("<2I", content, at)
        if command == SIGNATURE_COMMAND:
            found = struct.unpack_from("<2I", content, at + 8)
        at += size
    if found is None:
        return None
    offset, length = found
    blob = content[offset : offset + length]
    magic, _, blobs = struct.unpack_from(">3I", blob)
    assert magic == SUPER_BLOB
    places = [struct.unpack_from(">2I", blob, 12 + 8 * each)[1] for each in range(blobs)]
    (place,) = [each for each in places if struct.unpack_from(">I", blob, each)[0] == CODE_DIRECTORY]
    directory = blob[place:]
    _, _, _, flags, hashes, name, _, slots, limit, size, kind, _, page = struct.unpack_from(
        ">9I4B", directory
    )
    assert (kind, size) == (SHA256, 32)
    pages = [content[start : min(start + (1 << page), limit)] for start in range(0, limit, 1 << page)]
    said = [directory[hashes + 32 * each :][:32] for each in range(slots)]
    return CodeDirectory(
        identifier=directory[name:].split(b"\0")[0].decode(),
        ad_hoc=bool(flags & AD_HOC),
        limit=limit,
        pages=len(pages),
        wrong=tuple(
            number
            for number, (each, digest) in enumerate(zip(pages, said, strict=True))
            if hashlib.sha256(each).digest() != digest
        ),
    )
