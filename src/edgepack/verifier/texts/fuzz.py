"""Texts that a tokenizer may meet, and many that it will not: every script, marks, words of the vocabulary, special tokens."""

import random
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from tokenizers import Tokenizer

SPACES = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u180e\u2000\u2007\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
JOINERS = "\u200c\u200d\ufe0e\ufe0f\u20e3\u034f\u0345\u0301\u0308\u0327\u0338\u3099\u309a\U0001f3fb\U0001f3ff\U000e0061"
BLOCKS = (
    (0x0000, 0x007F), (0x0080, 0x00FF), (0x0100, 0x024F), (0x0250, 0x02FF), (0x0300, 0x036F), (0x0370, 0x03FF),
    (0x0400, 0x052F), (0x0530, 0x058F), (0x0590, 0x05FF), (0x0600, 0x06FF), (0x0700, 0x08FF), (0x0900, 0x097F),
    (0x0980, 0x0AFF), (0x0B00, 0x0DFF), (0x0E00, 0x0EFF), (0x0F00, 0x0FFF), (0x1000, 0x10FF), (0x1100, 0x11FF),
    (0x1200, 0x139F), (0x13A0, 0x167F), (0x1680, 0x17FF), (0x1800, 0x1AFF), (0x1B00, 0x1CFF), (0x1D00, 0x1DFF),
    (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x21FF), (0x2200, 0x2BFF), (0x2C00, 0x2DFF),
    (0x2E00, 0x2FFF), (0x3000, 0x30FF), (0x3100, 0x33FF), (0x3400, 0x9FFF), (0xA000, 0xA6FF), (0xA700, 0xABFF),
    (0xAC00, 0xD7FF), (0xE000, 0xF8FF), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFFF), (0x10000, 0x10FFF),
    (0x11000, 0x12FFF), (0x13000, 0x16FFF), (0x17000, 0x1AFFF), (0x1B000, 0x1CFFF), (0x1D000, 0x1DFFF),
    (0x1E000, 0x1EFFF), (0x1F000, 0x1FFFF), (0x20000, 0x323AF), (0xE0000, 0xE01EF), (0xF0000, 0x10FFFF),
)  # fmt: skip


def fuzz_texts_for(tokenizer: Tokenizer, count: int, *, seed: int) -> Iterator[str]:
    """``count`` texts with words of a tokenizer's vocabulary, real ones and its special tokens in them."""
    pieces = (word.replace("##", "").replace("▁", " ") for word in sorted(tokenizer.get_vocab()))
    words = [word for word in pieces if word]
    words += (files("edgepack.verifier") / "data/texts.txt").read_text(encoding="utf-8").split()
    specials = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    return fuzz_texts(count, seed=seed, words=words, specials=specials)


@cache
def combining_marks() -> list[str]:
    """All of them: planes above the second hold ideographs, tags and private use."""
    return [chr(point) for point in range(0x20000) if unicodedata.combining(chr(point))]


def fuzz_texts(count: int, *, seed: int, words: Sequence[str], specials: Sequence[str]) -> Iterator[str]:
    """``count`` texts, always the same for a seed.

    ``words`` are pieces of the vocabulary and of real texts, ``specials`` the tokenizer's added tokens.
    """
    chance = random.Random(seed)
    marks = combining_marks()
    makers = (_scripts, _one_script, _sentence, _marked, _mixed, _specials, _long)
    for _ in range(count):
        maker = chance.choices(makers, weights=(4, 5, 5, 3, 5, 2, 0.2))[0]
        yield maker(chance, words, specials, marks)


def _character(chance: random.Random, block: tuple[int, int]) -> str:
    point = chance.randint(*block)
    return "\ufffd" if 0xD800 <= point < 0xE000 else chr(point)


def _scripts(chance: random.Random, words: Sequence[str], specials: Sequence[str], marks: list[str]) -> str:
    return "".join(_character(chance, chance.choice(BLOCKS)) for _ in range(chance.randint(0, 24)))


def _one_script(
    chance: random.Random, words: Sequence[str], specials: Sequence[str], marks: list[str]
) -> str:
    block = chance.choice(BLOCKS)
    letters = [_character(chance, block) for _ in range(chance.randint(1, 40))]
    return "".join(letter + " " * (chance.random() < 0.15) for letter in letters)


def _sentence(chance: random.Random, words: Sequence[str], specials: Sequence[str], marks: list[str]) -> str:
    parts = []
    for _ in range(chance.randint(1, 20)):
        word = chance.choice(words)
        parts.append(chance.choice((word, word, word.upper(), word.title(), word[::-1])))
        parts.append(
            chance.choice((" ", " ", " ", " ", "", ", ", ". ", "-", "'", "  ", chance.choice(SPACES)))
        )
    return "".join(parts)


def _marked(chance: random.Random, words: Sequence[str], specials: Sequence[str], marks: list[str]) -> str:
    parts = []
    for _ in range(chance.randint(1, 8)):
        parts.append(_character(chance, chance.choice(BLOCKS)))
        parts += chance.choices(marks, k=chance.randint(0, 4))
        parts += chance.choices(JOINERS, k=chance.choice((0, 0, 1, 2)))
    return "".join(parts)


def _mixed(chance: random.Random, words: Sequence[str], specials: Sequence[str], marks: list[str]) -> str:
    parts = []
    for _ in range(chance.randint(1, 12)):
        kind = chance.randrange(6)
        if kind == 0:
            parts.append(_character(chance, chance.choice(BLOCKS)))
        elif kind == 1:
            parts.append(chance.choice(SPACES) * chance.randint(1, 3))
        elif kind == 2:
            parts.append(chance.choice(marks) + chance.choice(JOINERS))
        elif kind == 3:
            parts.append(str(chance.randrange(10 ** chance.randint(1, 9))))
        else:
            parts.append(chance.choice(words))
    return "".join(parts)


def _specials(chance: random.Random, words: Sequence[str], specials: Sequence[str], marks: list[str]) -> str:
    parts = []
    for _ in range(chance.randint(1, 8)):
        special = chance.choice(specials) if specials else "[X]"
        shape = chance.randrange(8)
        if shape == 0:
            special = special.lower()
        elif shape == 1:
            special = special[: chance.randint(1, len(special))]
        elif shape == 2:
            special = special.replace("]", " ]")
        parts.append(special)
        parts.append(
            chance.choice(("", "", " ", "  ", chance.choice(SPACES), chance.choice(words), "\u0301"))
        )
    return "".join(parts)


def _long(chance: random.Random, words: Sequence[str], specials: Sequence[str], marks: list[str]) -> str:
    letter = chance.choice((chance.choice(words), _character(chance, chance.choice(BLOCKS))))
    return letter * chance.randint(60, 700)
