"""Texts that nobody knows before they are drawn: what a program answers to them it has computed."""

import random
import secrets
from collections.abc import Sequence
from importlib.resources import files

from tokenizers import Tokenizer

from edgepack.verifier.texts.fuzz import BLOCKS

COUNT = 64
SEEDS = 1 << 32
_LETTERS = tuple(block for block in BLOCKS if 0x00C0 <= block[0] < 0xD7FF)


def new_seed() -> int:
    """A seed that nobody can know, below 2^32."""
    return secrets.randbelow(SEEDS)


def new_text() -> str:
    """A few words of the published texts, in an order that nobody can know."""
    words = (files("edgepack.verifier") / "data/texts.txt").read_text(encoding="utf-8").split()
    return " ".join(secrets.choice(words) for _ in range(12))


def drawn_texts(tokenizer: Tokenizer, texts: Sequence[str], *, seed: int) -> tuple[str, ...]:
    """``COUNT`` texts, always the same for a seed: sentences of words of ``texts`` and of the tokenizer's vocabulary, short, long, and in
    other scripts."""
    chance = random.Random(seed)
    known = [text.split() for text in texts]
    pieces = (piece.replace("##", "").replace("▁", "") for piece in sorted(tokenizer.get_vocab()))
    vocabulary = [piece for piece in pieces if len(piece) > 2 and piece.isalpha()] or ["a"]
    made: list[str] = []
    for at in range(COUNT):
        kind = at % 8
        if kind == 7:
            made.append(_of_one_script(chance))
        else:
            longest = 120 if kind == 6 else 24
            made.append(_sentence(chance, known, vocabulary, chance.randint(3, longest)))
    chance.shuffle(made)
    return tuple(made)


def _sentence(
    chance: random.Random, known: Sequence[Sequence[str]], vocabulary: Sequence[str], words: int
) -> str:
    """Runs of a few words of several texts, with single words of the vocabulary between them."""
    parts: list[str] = []
    while len(parts) < words:
        text = chance.choice(known)
        start = chance.randrange(len(text)) if text else 0
        parts += text[start : start + chance.randint(1, 5)]
        if chance.random() < 0.5:
            parts.append(chance.choice(vocabulary))
    return " ".join(parts[:words])


def _of_one_script(chance: random.Random) -> str:
    first, last = chance.choice(_LETTERS)
    letters = (chr(chance.randint(first, last)) for _ in range(chance.randint(8, 60)))
    return "".join(letter + " " * (chance.random() < 0.2) for letter in letters)
