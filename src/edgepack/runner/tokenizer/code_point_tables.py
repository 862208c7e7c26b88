"""Tables by code point, in two stages: blocks of 128 that are alike are stored once."""

import struct
from array import array
from collections.abc import Iterable, Sequence

from tokenizers.normalizers import Normalizer

from edgepack.runner.tokenizer.code_points import LIMIT, barriers, mark_orders, normal_forms, reorders
from edgepack.runner.tokenizer.sections import u32

BLOCK = 128
KEEP, DROP, DROP_BARRIER, ISOLATE, SPACE, HANGUL, FIRST_FORM = 0, 1, 2, 3, 4, 5, 8
"""What normalizer.h calls the same; from ``FIRST_FORM`` on, the number of a sequence of code points."""
TONE = 0x302A
"""IDEOGRAPHIC LEVEL TONE MARK, of canonical combining class 218."""


def two_stage(values: Sequence[int], *, width: int) -> bytes:
    """``values[code point]``, in ``width`` bytes each: the number of blocks, the block of each 128, the blocks."""
    code = {1: "B", 2: "H"}[width]
    known: dict[bytes, int] = {}
    stage = [
        known.setdefault(array(code, values[start : start + BLOCK]).tobytes(), len(known))
        for start in range(0, LIMIT, BLOCK)
    ]
    return struct.pack("<Q", len(known)) + struct.pack(f"<{len(stage)}H", *stage) + b"".join(known)


def normalizer_sections(normalizer: Normalizer) -> dict[str, bytes]:
    """The sections ``forms``, ``formtext`` and ``marks`` for a normalizer that treats each code point by itself.

    Such a normalizer may bring marks into canonical order, as decomposition does, but not compose.
    """
    normalize = normalizer.normalize_str
    forms = normal_forms(normalizer)
    ordered = reorders(normalize)
    dropped = [point for point, text in forms.items() if not text]
    walls = barriers(normalize, dropped) if ordered else set()
    actions = array("H", bytes(2 * LIMIT))
    numbers: dict[str, int] = {}
    for point, text in forms.items():
        actions[point] = _action(point, text, walls, numbers)
    made = {ord(letter) for text in forms.values() for letter in text}
    orders = mark_orders() if ordered else {}
    marks = {point: order for point, order in orders.items() if point in made or actions[point] == KEEP}
    if TONE in marks:
        # Its class is known to the library by this mark alone, so that mark_orders counts it as the next one.
        marks = {point: order + (order >= marks[TONE] and point != TONE) for point, order in marks.items()}
    return {
        "forms": two_stage(actions, width=2),
        "formtext": form_texts(numbers),
        "marks": u32([point << 8 | order for point, order in sorted(marks.items())]),
    }


def form_texts(texts: Iterable[str]) -> bytes:
    """How many there are and how many letters in all, where each begins and the last ends, the letters."""
    offsets, letters = [0], []
    for text in texts:
        letters += [ord(letter) for letter in text]
        offsets.append(len(letters))
    return u32([len(offsets) - 1, len(letters), *offsets, *letters])


def _action(point: int, text: str, walls: set[int], numbers: dict[str, int]) -> int:
    if not text:
        return DROP_BARRIER if point in walls else DROP
    if text == " ":
        return SPACE
    if text == f" {chr(point)} ":
        return ISOLATE
    if text == hangul(point):
        return HANGUL
    return FIRST_FORM + numbers.setdefault(text, len(numbers))


def hangul(point: int) -> str | None:
    """The canonical decomposition of a syllable (The Unicode Standard, 3.12)."""
    index = point - 0xAC00
    if not 0 <= index < 11172:
        return None
    leading, vowel, trailing = 0x1100 + index // 588, 0x1161 + index % 588 // 28, 0x11A7 + index % 28
    return chr(leading) + chr(vowel) + (chr(trailing) if trailing != 0x11A7 else "")
