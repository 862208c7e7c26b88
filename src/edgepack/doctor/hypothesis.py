"""A hypothesis: one way to make vectors, and what its vectors would be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from edgepack.doctor.halves import Halves, Row, Unanswered, Vectors
from edgepack.doctor.misreadings import OWN, Read, Reader

MODEL = "as the model does"
"""The pooling that the model's own graph has."""

Specials = Literal["all", "none", "not the first", "not the last", "twice"]
Side = Literal["end", "beginning"]


@dataclass(frozen=True)
class Padding:
    """Padding that is not told apart from text."""

    to: int
    """Tokens."""
    attended: bool
    """Whether the attention mask is missing; else padding is only counted by the pooling."""


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """How vectors may have been made."""

    length: int
    """Tokens that texts are cut to, special ones included."""
    prefix: str = ""
    """What is put before every text."""
    reading: str = OWN
    """Of ``misreadings.MISREADINGS``."""
    specials: Specials = "all"
    side: Side = "end"
    """Where too long a text is cut."""
    padding: Padding | None = None
    pooling: str = MODEL
    """``MODEL``, or of ``POOLINGS``."""
    head: bool = True
    """Whether what comes between pooling and normalisation is there."""


def _weighted(tokens: Vectors) -> Vectors:
    places = np.arange(1, len(tokens) + 1, dtype=np.float32)
    return np.asarray((tokens * places[:, None]).sum(axis=0) / places.sum())


POOLINGS: Mapping[str, Callable[[Vectors], Vectors]] = {
    "mean": lambda tokens: np.asarray(tokens.mean(axis=0)),
    "cls": lambda tokens: np.asarray(tokens[0]),
    "last": lambda tokens: np.asarray(tokens[-1]),
    "max": lambda tokens: np.asarray(tokens.max(axis=0)),
    "weighted-mean": _weighted,
    "mean-sqrt-len": lambda tokens: np.asarray(tokens.sum(axis=0) / len(tokens) ** 0.5),
}
"""Token vectors [sequence, hidden] to one, by the names of ``PoolingMode``."""
INNER_MEAN = "mean without special tokens"
POOLER = "pooler_output"
"""BERT's head for next-sentence prediction upon the first token, which the hub's model classes offer beside the token vectors."""


def vectors_of(hypothesis: Hypothesis, texts: Sequence[str], reader: Reader, halves: Halves) -> Vectors:
    """The vectors, not normalised, float32 [texts, dimension]; raises ``Unanswered``."""
    read = [cut(reader.read(hypothesis.prefix + text, hypothesis.reading), hypothesis) for text in texts]
    padding = hypothesis.padding
    rows = [
        Row(
            (*each.first, *each.ids, *each.last), *(() if padding is None else (padding.to, padding.attended))
        )
        for each in read
    ]
    hidden = list(halves.run(rows))
    if hypothesis.pooling == MODEL and hypothesis.head and padding is None:
        return np.stack([each.vector for each in hidden])
    if not halves.has_tokens:
        raise Unanswered("the graph pools inside")
    pooled = [
        _pooled(hypothesis, each.tokens, text, max(len(row.ids), 1), halves)
        for each, row, text in zip(hidden, rows, read, strict=True)
        if each.tokens is not None
    ]
    return halves.finish(np.stack(pooled)) if hypothesis.head else np.stack(pooled)


def _pooled(hypothesis: Hypothesis, tokens: Vectors, read: Read, count: int, halves: Halves) -> Vectors:
    if hypothesis.padding is None:
        tokens = tokens[:count]
    if hypothesis.pooling == POOLER and halves.pooler is not None:
        weight, bias = halves.pooler
        return np.asarray(np.tanh(weight @ tokens[0] + bias))
    if hypothesis.pooling == INNER_MEAN:
        inner = tokens[len(read.first) : len(read.first) + len(read.ids)]
        return POOLINGS["mean"](inner if len(inner) else tokens)
    return POOLINGS[halves.mode if hypothesis.pooling == MODEL else hypothesis.pooling](tokens)


def cut(read: Read, hypothesis: Hypothesis) -> Read:
    """The text's tokens as long as the hypothesis lets them be, with the special tokens that it puts there."""
    first = read.first if hypothesis.specials in ("all", "not the last", "twice") else ()
    last = read.last if hypothesis.specials in ("all", "not the first", "twice") else ()
    if hypothesis.specials == "twice":
        first, last = first * 2, last * 2
    room = max(0, hypothesis.length - len(first) - len(last))
    if hypothesis.side == "end":
        return Read(first=first, ids=read.ids[:room], last=last)
    return Read(first=first, ids=read.ids[-room:] if room else (), last=last)
