"""Which characters readers see as one: the classes of UAX 29, found by asking the library that splits by them.

A map of characters that knows every first byte of UTF-8 turns each cluster of less than six bytes into one letter, and each
character of a longer one: the number of letters says where the library sees clusters end.
"""

import base64
import struct
from functools import cache

from edgepack.runner.tokenizer.code_points import LIMIT, Normalize, bare_tokenizer, characters, runs

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


def matching(before: str, asked: str, after: str, letters: int) -> str:
    """Those of some characters that become so many letters between ``before`` and ``after``."""
    found = []
    count = counter()
    for run in runs(asked):
        made = count("\n" + before + (after + "\n" + before).join(run) + after + "\n")
        first = made[: made.index("\n", 1)]
        if made == first * len(run) + "\n":  # most runs are of one kind
            found += [run] * (len(first) - 1 == letters)
        else:
            found += [
                letter for letter, one in zip(run, made[1:].split("\n"), strict=False) if len(one) == letters
            ]
    return "".join(found)


@cache
def cluster_kinds() -> bytes:
    """The class of each code point."""
    kinds = bytearray(LIMIT)
    letters = characters().translate({10: None, 13: None})
    extending = matching("a", letters, "", 1)
    others = letters.translate(dict.fromkeys(map(ord, extending)))
    _set(kinds, CONTROL, matching("", others, ACUTE * 2, 2))
    _set(kinds, PREPEND, matching("", others, "a", 1))
    _set(kinds, PICTURE, matching(COPYRIGHT + ZWJ, others, ACUTE, 4), unless=CONTROL)
    _set(kinds, CONSONANT, matching(KA + VIRAMA, others, ACUTE, 4), unless=CONTROL)
    _set(kinds, SPACING, extending)
    plain = matching(COPYRIGHT, extending, ZWJ + COPYRIGHT + ACUTE, 5)
    _set(kinds, PLAIN, plain)
    _set(kinds, EXTEND, matching(KA, plain, VIRAMA + KA + ACUTE, 5))
    _set(kinds, LINKER, matching(KA, extending, KA + ACUTE, 4))
    for kind, ranges in HANGUL.items():
        for first, last in ranges:
            kinds[first : last + 1] = bytes([kind]) * (last + 1 - first)
    for syllable in range(0xAC00, 0xD7A4, 28):
        kinds[syllable] = LV
    kinds[10], kinds[13], kinds[0x200D] = LF, CR, JOINER
    kinds[0x1F1E6:0x1F200] = bytes([REGION]) * 26
    return bytes(kinds)


HANGUL = {
    L: ((0x1100, 0x115F), (0xA960, 0xA97C)),
    V: ((0x1160, 0x11A7), (0xD7B0, 0xD7C6)),
    T: ((0x11A8, 0x11FF), (0xD7CB, 0xD7FB)),
    LVT: ((0xAC00, 0xD7A3),),
}
"""Fixed for good (The Unicode Standard, 3.12)."""


def _set(kinds: bytearray, kind: int, letters: str, *, unless: int = -1) -> None:
    for point in map(ord, letters):
        if kinds[point] != unless:
            kinds[point] = kind
