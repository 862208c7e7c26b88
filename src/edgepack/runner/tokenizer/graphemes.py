"""Which characters readers see as one: the classes of UAX 29, found by asking the library that splits by them.

A map of characters that knows every first byte of UTF-8 turns each cluster of less than six bytes into one letter, and each
character of a longer one: the number of letters says where the library sees clusters end.
"""

import base64
import struct
from functools import cache

from edgepack.runner.tokenizer.code_points import CHUNK, LIMIT, Normalize, bare_tokenizer, code_points

(
    CR,
    LF,
    CONTROL,
    EXTEND,
    LINKER,
    PLAIN,
    JOINER,
    REGION,
    PREPEND,
    SPACING,
    L,
    V,
    T,
    LV,
    LVT,
    PICTURE,
    CONSONANT,
) = range(1, 18)
ACUTE, ZWJ, KA, VIRAMA, COPYRIGHT = "\u0301", "\u200d", "\u0915", "\u094d", "\u00a9"


def counting_map() -> bytes:
    """A map of characters that turns every first byte but that of a line feed into ``Z``."""
    units = [0] * 1024
    offset = 256
    units[0] = offset << 10
    for byte in range(1, 256):
        if byte != 10:
            leaf = 512 + byte
            units[offset ^ byte] = (offset ^ byte ^ leaf) << 10 | 1 << 8 | byte
            units[leaf] = 1 << 31
    blob = struct.pack("<1024I", *units)
    return struct.pack("<I", len(blob)) + blob + b"Z\0"


@cache
def counter() -> Normalize:
    charsmap = base64.b64encode(counting_map()).decode()
    normalizer = bare_tokenizer(
        normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap}
    ).normalizer
    assert normalizer is not None
    normalize: Normalize = normalizer.normalize_str
    return normalize


def counts(before: str, points: list[int], after: str) -> list[int]:
    """Letters that become of ``before``, a code point and ``after``, for each code point."""
    found: list[int] = []
    count = counter()
    for start in range(0, len(points), CHUNK):
        chunk = points[start : start + CHUNK]
        made = count("\n" + "\n".join(before + chr(point) + after for point in chunk) + "\n").split("\n")
        found += [len(letters) for letters in made[1:-1]]
    return found


def matching(before: str, points: list[int], after: str, letters: int) -> set[int]:
    return {
        point for point, found in zip(points, counts(before, points, after), strict=True) if found == letters
    }


@cache
def cluster_kinds() -> bytes:
    """The class of each code point."""
    kinds = bytearray(LIMIT)
    points = [point for point in code_points() if point not in (10, 13)]
    extending = matching("a", points, "", 1)
    others = [point for point in points if point not in extending]
    _set(kinds, CONTROL, matching("", others, ACUTE * 2, 2))
    _set(kinds, PREPEND, matching("", others, "a", 1))
    _set(kinds, PICTURE, matching(COPYRIGHT + ZWJ, others, ACUTE, 4) - _set_of(kinds, CONTROL))
    _set(kinds, CONSONANT, matching(KA + VIRAMA, others, ACUTE, 4) - _set_of(kinds, CONTROL))
    marks = sorted(extending)
    _set(kinds, SPACING, extending)
    _set(kinds, PLAIN, matching(COPYRIGHT, marks, ZWJ + COPYRIGHT + ACUTE, 5))
    _set(kinds, EXTEND, matching(KA, marks, VIRAMA + KA + ACUTE, 5) & _set_of(kinds, PLAIN))
    _set(kinds, LINKER, matching(KA, marks, KA + ACUTE, 4))
    for kind, ranges in HANGUL.items():
        for first, last in ranges:
            _set(kinds, kind, set(range(first, last + 1)))
    _set(kinds, LV, set(range(0xAC00, 0xD7A4, 28)))
    kinds[10], kinds[13], kinds[0x200D] = LF, CR, JOINER
    _set(kinds, REGION, set(range(0x1F1E6, 0x1F200)))
    return bytes(kinds)


HANGUL = {
    L: ((0x1100, 0x115F), (0xA960, 0xA97C)),
    V: ((0x1160, 0x11A7), (0xD7B0, 0xD7C6)),
    T: ((0x11A8, 0x11FF), (0xD7CB, 0xD7FB)),
    LVT: ((0xAC00, 0xD7A3),),
}
"""Fixed for good (The Unicode Standard, 3.12)."""


def _set(kinds: bytearray, kind: int, points: set[int]) -> None:
    for point in points:
        kinds[point] = kind


def _set_of(kinds: bytearray, kind: int) -> set[int]:
    return {point for point in range(LIMIT) if kinds[point] == kind}
