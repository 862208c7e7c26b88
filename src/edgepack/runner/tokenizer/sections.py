"""The file that a compiled tokenizer is: sections that a program maps and uses where they lie.

A header (magic, size, sum), a directory of sections, then the sections, each on an 8-byte boundary, little-endian.
The sum notices a damaged file before anything follows an offset in it.
"""

import struct
from collections.abc import Mapping, Sequence

MAGIC = b"EDGETOK1"
_HEADER = struct.Struct("<8sQQQ")
_ENTRY = struct.Struct("<8sQQ")


def pack_sections(sections: Mapping[str, bytes]) -> bytes:
    """The bytes of a table file; names have eight characters at most."""
    start = _HEADER.size + _ENTRY.size * len(sections)
    directory, body = b"", b""
    for name, content in sections.items():
        directory += _ENTRY.pack(name.encode("ascii"), start + len(body), len(content))
        body += content + bytes(-len(content) % 8)
    rest = directory + body
    return _HEADER.pack(MAGIC, _HEADER.size + len(rest), weighted_sum(rest), len(sections)) + rest


def weighted_sum(content: bytes) -> int:
    """64-bit words, each times an odd number of its own: no change of a single word goes unnoticed."""
    import numpy as np

    words = np.frombuffer(content, dtype="<u8")
    weights = np.arange(len(words), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    with np.errstate(over="ignore"):
        return int((words * weights).sum(dtype=np.uint64))


def u24(values: Sequence[int]) -> bytes:
    """Three bytes each. Raises ``OverflowError`` for a value that has more."""
    return b"".join(value.to_bytes(3, "little") for value in values)


def u32(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)
