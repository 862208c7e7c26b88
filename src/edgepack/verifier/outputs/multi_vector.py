"""A vector for each token; texts rank by MaxSim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgepack.models.token_reference import TextOutputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

NAME: Final = "multi_vector"


def score(query: TextOutputs, text: TextOutputs) -> float:
    """Sum, over the tokens of the query, of the cosine to the nearest of the text's."""
    if not len(query.vectors) or not len(text.vectors):
        return 0.0
    return float((query.vectors.astype(np.float64) @ text.vectors.astype(np.float64).T).max(axis=1).sum())


def agreement(made: TextOutputs, exact: TextOutputs) -> tuple[float, float]:
    """Mean cosine of the tokens' vectors, which are of length 1, and the largest difference of a number."""
    if not made.vectors.size:
        return 1.0, 0.0
    cosines = np.einsum("td,td->t", made.vectors.astype(np.float64), exact.vectors.astype(np.float64))
    return float(cosines.mean()), float(np.abs(made.vectors - exact.vectors).max())


def differences(made: TextOutputs, exact: TextOutputs) -> tuple[Numbers, Numbers]:
    """Differences of the tokens' vectors, and the reference's."""
    numbers = exact.vectors.astype(np.float64)
    return made.vectors - numbers, numbers
