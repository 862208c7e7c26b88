"""How far vectors are from others, as numbers that mean the same for every model."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepack.doctor.halves import Vectors

Numbers = NDArray[np.float64]
LIKE = 0.7
"""How far a deviation must go in the direction of a hypothesis: 1 is all the way, 0.5 is any other model's."""
LEAST_GAIN = 0.3


def directions(vectors: Vectors, dimension: int, *, centred: bool = False) -> Numbers:
    """The first numbers of each vector, float64 [texts, dimension], of length 1 (zeros stay zeros).

    ``centred``: after the vector's mean was taken off, as a layer normalisation before a cut does.
    """
    wide = vectors.astype(np.float64)
    if centred:
        wide = wide - wide.mean(axis=1, keepdims=True)
    wide = wide[:, :dimension]
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-30))


def apart(found: Numbers, other: Numbers) -> Numbers:
    """Squared distances of rows, float64 [texts]: 2 - 2 cosine for directions."""
    return np.asarray(((found - other) ** 2).sum(axis=1))


def spread(expected: Numbers) -> float:
    """Mean squared distance of a model's directions from their middle: what distances are measured in.

    Models whose texts all lie in a narrow cone give cosines of 0.8 to unrelated texts; in this unit unrelated is 2.
    """
    return max(float(((expected - expected.mean(axis=0)) ** 2).sum(axis=1).mean()), 1e-12)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A hypothesis against a simpler one, on the texts that they differ on."""

    texts: int
    like: float
    """How far the deviation from the simpler one goes in the other's direction."""
    gain: float
    """The share of the squared deviation that is explained."""
    saved: float
    """Squared distance that is explained, summed over the texts."""

    @property
    def convinces(self) -> bool:
        return self.texts > 0 and self.like >= LIKE and self.gain >= LEAST_GAIN


def compare(found: Numbers, simpler: Numbers, other: Numbers) -> Comparison:
    """Whether ``other`` explains ``found`` better than ``simpler`` does; directions [texts, dimension] each."""
    between = apart(simpler, other)
    rows = between > 1e-9
    if not rows.any():
        return Comparison(texts=0, like=0.0, gain=0.0, saved=0.0)
    found, simpler, other = found[rows], simpler[rows], other[rows]
    before, after = apart(found, simpler).sum(), apart(found, other).sum()
    like = ((found - simpler) * (other - simpler)).sum() / between[rows].sum()
    return Comparison(
        texts=int(rows.sum()),
        like=float(like),
        gain=float(1 - after / max(before, 1e-30)),
        saved=float(before - after),
    )
