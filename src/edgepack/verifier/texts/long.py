"""Texts that are longer than a model takes: where a program cuts them decides their vectors."""

from collections.abc import Sequence

from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.records.model import ModelSource

TIMES = (2, 3, 4)
"""How many times as many tokens as the model takes."""
LONGEST = 1024
"""Tokens. A model that takes more gets one text of so many: attention over 8,192 takes minutes and gigabytes of the reference."""


@panics_reported()
def long_texts(source: ModelSource, texts: Sequence[str]) -> tuple[str, ...]:
    """Made of ``texts``, each beginning at another: of 2, 3 and 4 times as many tokens as the model takes, at least, or one of ``tokens_of_long``."""
    shorter = tokens_of_long(source)
    wanted = [shorter] if shorter else [times * source.max_length for times in TIMES]
    tokenizer = load_tokenizer(source)
    tokenizer.no_truncation()
    lengths = [len(each.ids) for each in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    starts = [at * len(texts) // len(wanted) for at in range(len(wanted))]
    return tuple(_joined(texts, lengths, start, tokens) for start, tokens in zip(starts, wanted, strict=True))


def tokens_of_long(source: ModelSource) -> int:
    """Tokens of the longest text where the model takes more, else 0."""
    return LONGEST - 1 if source.max_length > LONGEST else 0


def _joined(texts: Sequence[str], lengths: Sequence[int], start: int, tokens: int) -> str:
    """Texts from ``start`` on, and from the first again after the last, until they have so many tokens."""
    parts, have = [], 0
    for at in range(start, start + max(tokens, 1) * len(texts)):
        if have >= tokens:
            break
        parts.append(texts[at % len(texts)])
        have += lengths[at % len(texts)]
    return " ".join(parts)
