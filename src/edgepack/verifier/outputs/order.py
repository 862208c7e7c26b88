"""The order that scores put texts into, beside another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

Pair = tuple[str, str]
QUERIES, DOCUMENTS = 100, 10
"""Of each query the texts that stand around it, which are about the same."""


def ranking_pairs(texts: Sequence[str]) -> list[Pair]:
    """Each second text with the ``DOCUMENTS`` others around it."""
    pairs = []
    for at in range(0, len(texts), max(1, len(texts) // QUERIES)):
        start = min(max(0, at - DOCUMENTS // 2), len(texts) - DOCUMENTS - 1)
        around = [other for other in range(start, start + DOCUMENTS + 1) if other != at][:DOCUMENTS]
        pairs += [(texts[at], texts[other]) for other in around]
    return pairs


def kendall_tau(ours: Numbers, theirs: Numbers) -> float:
    """Kendall's tau-b of two lists of numbers: 1, the same order; ties in either count for neither order."""
    pairs = np.triu_indices(len(ours), 1)
    one, other = (np.sign(values[:, None] - values[None, :])[pairs] for values in (ours, theirs))
    ranked = np.sqrt(float(np.abs(one).sum()) * float(np.abs(other).sum()))
    return float((one * other).sum() / ranked) if ranked else 0.0


def keeps_best(ours: Numbers, theirs: Numbers) -> bool:
    """Whether the best is as good as the reference's best; equal scores are equally good."""
    return bool(theirs[int(ours.argmax())] == theirs.max())
