"""How near vectors are to others of the same texts. Pure functions on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """Vectors compared with a reference, text by text."""

    texts: int
    mean_cosine: float
    p1_cosine: float
    """First percentile, linearly interpolated."""
    min_cosine: float
    worst: int
    """Index of the text with the lowest cosine."""
    neighbour_agreement: float
    """Share of the texts whose nearest other text is the same one in both."""


def compare(vectors: NDArray[np.float32], reference: NDArray[np.float32]) -> Nearness:
    """Compare ``vectors`` with ``reference``, both float [texts, dimension] with texts >= 2, of any length but zero."""
    if vectors.shape != reference.shape or vectors.ndim != 2 or len(vectors) < 2:
        raise ValueError(
            f"two arrays of one shape [texts >= 2, dimension], not {vectors.shape}, {reference.shape}"
        )
    ours, theirs = unit(vectors), unit(reference)
    cosines = np.einsum("td,td->t", ours, theirs)
    return Nearness(
        texts=len(cosines),
        mean_cosine=float(cosines.mean()),
        p1_cosine=float(np.percentile(cosines, 1)),
        min_cosine=float(cosines.min()),
        worst=int(cosines.argmin()),
        neighbour_agreement=float((nearest(ours) == nearest(theirs)).mean()),
    )


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """The vectors, float64, each divided by its length."""
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True))


def nearest(units: NDArray[np.float64]) -> NDArray[np.intp]:
    """For each unit vector the index of the other one with the highest cosine; int [texts]."""
    cosines = units @ units.T
    np.fill_diagonal(cosines, -np.inf)
    return np.asarray(cosines.argmax(axis=1))
