"""What the real tokenizer does to every code point, found by asking it.

Rules about characters depend on the Unicode version of the library that trained and tested the model, so none is
written down here: each is read off the library's own answers.
"""

import json
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
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
def characters() -> str:
    """All that there are, in order."""
    return "".join(map(chr, (*range(SURROGATES.start), *range(SURROGATES.stop, LIMIT))))


def runs(letters: str) -> Iterator[str]:
    """Runs of characters that are asked about at once."""
    return (letters[start : start + CHUNK] for start in range(0, len(letters), CHUNK))


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


def changes(normalize: Normalize, letters: str, *, before: str = "", after: str = "") -> dict[str, str]:
    """Character → what becomes of it between ``before`` and ``after``, for those that are changed; most runs are not."""
    found: dict[str, str] = {}
    for run in runs(letters):
        together = BAR + before + (after + BAR + before).join(run) + after + BAR
        if normalize(together) != together:
            texts = [before + letter + after for letter in run]
            made = zip(run, texts, answers(normalize, texts), strict=True)
            found |= {letter: answer for letter, text, answer in made if answer != text}
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
    letters = characters()
    classes = dict(zip(map(unicodedata.combining, reversed(letters)), reversed(letters), strict=True))
    ordered = [classes[number] for number in sorted(classes) if number]
    whole = letters.translate(dict.fromkeys(map(ord, changes(nfd, letters))))
    moved = changes(nfd, whole, after=ordered[0]) | changes(nfd, whole, before=ordered[-1])
    # A mark changes places with those of lower classes; what Python alone knows as a mark changes places with none.
    known = [other for other in ordered if other in moved]
    return {
        ord(mark): 1 + bisect_left(known, True, key=lambda other: nfd(mark + other) == mark + other)
        for mark in sorted(moved)
    }


def piece_kinds(pre_tokenizer: Any) -> bytearray:
    """For each code point what a pre-tokenizer does to it between letters.

    0: nothing, 1: takes it out and parts what is around it, 2: makes it a piece of its own.
    """
    kinds = bytearray(LIMIT)
    for run in runs(characters()):
        text = "a" + "a".join(run) + "a"
        spans = [span for _, span in pre_tokenizer.pre_tokenize_str(text)]
        if len(spans) == 1:
            continue
        alone = {first for first, end in spans if end == first + 1}
        inside = bytearray(len(text))
        for first, end in spans:
            inside[first:end] = b"\1" * (end - first)
        for place, letter in enumerate(text):
            if place % 2 and not inside[place]:
                kinds[ord(letter)] = 1
            elif place % 2 and place in alone:
                kinds[ord(letter)] = 2
    return kinds


def normal_forms(normalizer: Normalizer) -> dict[int, str]:
    """Code point → what the normalizer makes of it, for those that it changes."""
    made = changes(normalizer.normalize_str, characters())
    return {ord(letter): text for letter, text in made.items()}


@cache
def compositions() -> list[tuple[int, int, int]]:
    """Two code points and the one that NFC makes of them, sorted; without Hangul, which is counted out."""
    composed, decomposed = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    parts = [
        (whole, made[:-1], made[-1])
        for whole, made in changes(decomposed, characters()).items()
        if len(made) > 1 and not 0xAC00 <= ord(whole) < 0xD7A4
    ]
    firsts = answers(composed, [first for _, first, _ in parts])
    joined = answers(composed, [first + last for _, first, last in parts])
    return sorted(
        (ord(first), ord(last), ord(whole))
        for (whole, _, last), first, made in zip(parts, firsts, joined, strict=True)
        if made == whole and len(first) == 1
    )
