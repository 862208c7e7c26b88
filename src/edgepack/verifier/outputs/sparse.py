"""Sparse vectors: weights of tokens; texts rank by dot products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgepack.models.token_reference import TextOutputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

NAME: Final = "sparse"
NOTABLE = 0.1
"""Weights of tokens below that share of the text's largest are left out where tokens are compared."""


def score(query: TextOutputs, text: TextOutputs) -> float:
    return sum(weight * text.sparse.get(token, 0.0) for token, weight in query.sparse.items())


def agreement(made: TextOutputs, exact: TextOutputs) -> tuple[float, float]:
    """Share of the notable tokens that both have, and the largest difference of a weight."""
    tokens = made.sparse.keys() | exact.sparse.keys()
    pairs = [(made.sparse.get(token, 0.0), exact.sparse.get(token, 0.0)) for token in tokens]
    least = NOTABLE * max((max(pair) for pair in pairs), default=0.0)
    notable = [pair for pair in pairs if max(pair) >= least]
    kept = np.mean([min(pair) > 0 for pair in notable]) if notable else 1.0
    return float(kept), max((abs(one - other) for one, other in pairs), default=0.0)


def differences(made: TextOutputs, exact: TextOutputs) -> tuple[Numbers, Numbers]:
    """Differences of the weights of the tokens that either has, and the reference's weights."""
    tokens = sorted(made.sparse.keys() | exact.sparse.keys())
    one, other = (np.array([each.sparse.get(token, 0.0) for token in tokens]) for each in (made, exact))
    return one - other, other
