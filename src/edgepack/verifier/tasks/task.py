"""What a task of the full gate is: texts, what their vectors are worth, and how much of that a recipe may lose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Task:
    """Texts, and a figure of their vectors."""

    limit: str
    """The key of a target that says how much of the full-precision model's figure may be lost."""
    what: str
    """The figure in words, e.g. ``Spearman on …``."""
    texts: tuple[str, ...]
    score: Callable[[NDArray[np.float32]], float]
    """Of vectors [texts, dimension]; more is better, 1 is best."""


def positions(*columns: Sequence[str]) -> tuple[tuple[str, ...], list[NDArray[np.intp]]]:
    """The different texts of some columns, and of each column the index of each of its texts."""
    order: dict[str, int] = {}
    found = [[order.setdefault(text, len(order)) for text in column] for column in columns]
    return tuple(order), [np.asarray(each, np.intp) for each in found]
