"""What the real tokenizer does to every code point, found by asking it.

Rules about characters depend on the Unicode version of the library that trained and tested the model, so none is
written down here: each is read off the library's own answers.
"""

import json
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tokenizers import Tokenizer, normalizers
from tokenizers.normalizers import Normalizer

LIMIT = 0x110000
SURROGATES = range(0xD800, 0xE000)
CHUNK = 2048
BAR = "|"
# Two marks that are neither dropped with the accents nor in canonical order: classes 216 and 9.
HIGH, LOW = "\U0001d165", "\u1b44"

Normalize = Callable[[str], str]


@cache
def code_points() -> tuple[int, ...]:
    return (*range(SURROGATES.start), *range(SURROGATES.stop, LIMIT))


def bare_tokenizer(**components: Any) -> Tokenizer:
    """A tokenizer of one unknown word with components of a tokenizer.json, to ask them one by one."""
    model = {
        "type": "WordPiece",
        "vocab": {"[UNK]": 0},
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
    }
    document = {
        "version": "1.0",
        "added_tokens": [],
        "model": {**model, "max_input_chars_per_word": 100},
        **components,
    }
    return Tokenizer.from_str(json.dumps(document))


def answers(normalize: Normalize, texts: Sequence[str]) -> list[str]:
    """Normalized texts; many are asked about at once, with bars between them."""
    found: list[str] = []
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        parts = normalize(BAR + BAR.join(chunk) + BAR).split(BAR)
        whole = len(parts) == len(chunk) + 2 and parts[0] == parts[-1] == ""
        found += parts[1:-1] if whole else [normalize(text) for text in chunk]
    return found


def changes(normalize: Normalize, texts: Sequence[str]) -> dict[int, str]:
    """Place in ``texts`` → what becomes of it, for those that are changed; most runs of code points are not."""
    found: dict[int, str] = {}
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        together = BAR + BAR.join(chunk) + BAR
        if normalize(together) != together:
            made = answers(normalize, chunk)
            found |= {start + at: text for at, text in enumerate(made) if text != chunk[at]}
    return found


def reorders(normalize: Normalize) -> bool:
    """Whether marks are brought into canonical order."""
    return normalize(HIGH + LOW) == LOW + HIGH


def barriers(normalize: Normalize, points: Sequence[int]) -> set[int]:
    """Code points that vanish, and nevertheless keep the marks around them from changing places."""
    asked = answers(normalize, [HIGH + chr(point) + LOW for point in points])
    return {point for point, answer in zip(points, asked, strict=True) if answer == HIGH + LOW}


@cache
def mark_orders() -> dict[int, int]:
    """Code point → a number that orders marks as their canonical combining classes do; starters are left out."""
    nfd = normalizers.NFD().normalize_str
    texts = [*map(chr, code_points())]
    classes = dict(zip(map(unicodedata.combining, reversed(texts)), reversed(texts), strict=True))
    ordered = [classes[number] for number in sorted(classes) if number]
    decomposed = changes(nfd, texts)
    marks = [text for at, text in enumerate(texts) if at not in decomposed]
    lowest, highest = ordered[0], ordered[-1]
    before = changes(nfd, [mark + lowest for mark in marks])
    after = changes(nfd, [highest + mark for mark in marks])
    return {
        ord(marks[at]): 1 + sum(nfd(marks[at] + other) != marks[at] + other for other in ordered)
        for at in sorted({*before, *after})
    }


def piece_kinds(pre_tokenizer: Any) -> bytearray:
    """For each code point what a pre-tokenizer does to it between letters.

    0: nothing, 1: takes it out and parts what is around it, 2: makes it a piece of its own.
    """
    kinds = bytearray(LIMIT)
    points = code_points()
    for start in range(0, len(points), CHUNK):
        chunk = points[start : start + CHUNK]
        text = "a" + "a".join(map(chr, chunk)) + "a"
        spans = [span for _, span in pre_tokenizer.pre_tokenize_str(text)]
        alone = {first for first, end in spans if end == first + 1}
        inside = bytearray(len(text))
        for first, end in spans:
            inside[first:end] = b"\1" * (end - first)
        for index, point in enumerate(chunk):
            place = 2 * index + 1
            if not inside[place]:
                kinds[point] = 1
            elif place in alone:
                kinds[point] = 2
    return kinds


def normal_forms(normalizer: Normalizer) -> dict[int, str]:
    """Code point → what the normalizer makes of it, for those that it changes."""
    points = code_points()
    made = changes(normalizer.normalize_str, [*map(chr, points)])
    return {points[at]: text for at, text in made.items()}


@cache
def compositions() -> list[tuple[int, int, int]]:
    """Two code points and the one that NFC makes of them, sorted; without Hangul, which is counted out."""
    composed, decomposed = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    points = [chr(point) for point in code_points() if not 0xAC00 <= point < 0xD7A4]
    parts = [
        (whole, made[:-1], made[-1])
        for whole, made in zip(points, answers(decomposed, points), strict=True)
        if len(made) > 1
    ]
    firsts = answers(composed, [first for _, first, _ in parts])
    joined = answers(composed, [first + last for _, first, last in parts])
    return sorted(
        (ord(first), ord(last), ord(whole))
        for (whole, _, last), first, made in zip(parts, firsts, joined, strict=True)
        if made == whole and len(first) == 1
    )
