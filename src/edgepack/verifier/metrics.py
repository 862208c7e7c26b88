"""How near vectors are to others of the same texts. Pure functions on arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOP = 10


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """Vectors compared with a reference, text by text."""

    cosines: tuple[float, ...]
    """Of each text."""
    mean_cosine: float
    p1_cosine: float
    """First percentile, linearly interpolated."""
    min_cosine: float
    neighbour_agreement: float
    """Share of the texts whose nearest other text is the same one in both."""
    top10_agreement: float
    """Share of a text's ten nearest other texts that are the same ones in both."""


def compare(vectors: NDArray[np.float32], reference: NDArray[np.float32]) -> Nearness:
    """Compare ``vectors`` with ``reference``, both float [texts, dimension] with texts >= 2, of any length but zero."""
    if vectors.shape != reference.shape or vectors.ndim != 2 or len(vectors) < 2:
        raise ValueError(
            f"two arrays of one shape [texts >= 2, dimension], not {vectors.shape}, {reference.shape}"
        )
    ours, theirs = unit(vectors), unit(reference)
    cosines = np.einsum("td,td->t", ours, theirs)
    return Nearness(
        cosines=tuple(cosines.tolist()),
        mean_cosine=float(cosines.mean()),
        p1_cosine=float(np.percentile(cosines, 1)),
        min_cosine=float(cosines.min()),
        neighbour_agreement=float((nearest_neighbours(ours) == nearest_neighbours(theirs)).mean()),
        top10_agreement=shared(top(others(ours)), top(others(theirs))),
    )


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """The vectors, float64, each divided by its length. One of zeros, as a sparse encoder may give, becomes a direction of its own."""
    wide = vectors.astype(np.float64)
    wide[~wide.any(axis=1)] = 1
    return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True))


def lowest_cosine(vectors: NDArray[np.float32], others: NDArray[np.float32]) -> float:
    """The lowest cosine between a row and the same row of another array of the same shape.

    For what must not depend on where or in what company a text is embedded: batches, instruction sets, processors.
    """
    if vectors.shape != others.shape:
        raise ValueError(f"two arrays of one shape, not {vectors.shape}, {others.shape}")
    return float(np.einsum("td,td->t", unit(vectors), unit(others)).min())


def mean_cosine(vectors: NDArray[np.float32], others: NDArray[np.float32]) -> float:
    """The mean cosine between a row and the same row of another array of the same shape."""
    return float(np.einsum("td,td->t", unit(vectors), unit(others)).mean())


def length_error(vectors: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """The largest difference of a row's length from the same row's in the reference, as a share of that; rows of zeros there are left out."""
    ours, theirs = (np.linalg.norm(each.astype(np.float64), axis=1) for each in (vectors, reference))
    there = theirs > 0
    return float(np.abs(ours[there] / theirs[there] - 1).max(initial=0.0))


def others(units: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosines of every vector to every other one [texts, texts]; to itself it is minus infinity."""
    cosines = units @ units.T
    np.fill_diagonal(cosines, -np.inf)
    return np.asarray(cosines)


def top(scores: NDArray[np.float64], count: int = TOP) -> NDArray[np.intp]:
    """For each row the indices of its highest scores, best first; ties by index; int [rows, up to count]."""
    return np.asarray(np.argsort(-scores, axis=1, kind="stable")[:, : min(count, scores.shape[1])])


def shared(ours: NDArray[np.intp], theirs: NDArray[np.intp]) -> float:
    """Mean share of each row's indices that are in the same row of both."""
    both = [len(set(a) & set(b)) / len(a) for a, b in zip(ours.tolist(), theirs.tolist(), strict=True)]
    return float(np.mean(both))


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How queries find what belongs to them."""

    recall: float
    """Share of the queries whose own text is among the ten nearest."""
    mrr: float
    """Mean of 1 / rank of the own text."""
    nearest: NDArray[np.intp]
    """The ten nearest of each, int [queries, 10]."""


def rank(queries: NDArray[np.float32], texts: NDArray[np.float32], belongs: NDArray[np.intp]) -> Ranking:
    """Rank all ``texts`` for each query; ``belongs`` is the index of each query's own text."""
    scores = unit(queries) @ unit(texts).T
    own = scores[np.arange(len(scores)), belongs]
    places = (scores > own[:, None]).sum(axis=1) + 1
    return Ranking(recall=float((places <= TOP).mean()), mrr=float((1 / places).mean()), nearest=top(scores))


def nearest_neighbours(units: NDArray[np.float64]) -> NDArray[np.intp]:
    """For each unit vector the index of the other one with the highest cosine; int [texts]."""
    return np.asarray(others(units).argmax(axis=1))
