"""The gate of sparse vectors and of vectors of tokens: whether texts rank as they do by the full-precision model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from edgepack.context import BuildContext
from edgepack.errors import VerificationError
from edgepack.models.token_reference import TextOutputs, reference_outputs
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.records.report import OutputFigures
from edgepack.verifier.outputs.order import DOCUMENTS, keeps_best, kendall_tau, ranking_pairs
from edgepack.verifier.texts.long import long_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

Sides = Sequence[Sequence[TextOutputs]]
Name = Literal["sparse", "multi_vector"]

STEP = 2
"""Each second of the verification texts: what tokens have is many numbers."""
NOTABLE = 0.1
"""Weights of tokens below that share of the text's largest are left out where tokens are compared."""
LENGTH_TOLERANCE = 1e-3
"""How far the length of a token's vector may be from the reference's, which is 1."""
HINT = "the runner in this bundle is broken; run its `embed --self-test` for details"


class Giving(Protocol):
    """How a bundle's program gives its outputs; ``BundleRunner`` does it."""

    def outputs(self, bundle: Bundle, texts: Sequence[str], *, query: bool) -> Sequence[TextOutputs]:
        """Of each text, read as a query or as a document."""


def measure_outputs(
    giving: Giving,
    bundle: Bundle,
    source: ModelSource,
    texts: Sequence[str],
    *,
    drawn: Sequence[str] = (),
    context: BuildContext,
) -> tuple[OutputFigures, ...]:
    """Figures of each output beside the full-precision model's; ``drawn`` are texts that no program can know.

    Raises ``VerificationError`` for other tokens than the reference's, or numbers that are none, and what ``giving`` raises.
    """
    assert source.outputs is not None
    texts = texts[::STEP]
    ours, theirs = _both(giving, bundle, source, texts, context)
    found = []
    if source.outputs.sparse:
        found.append(_figures("sparse", texts, ours, theirs))
    if source.outputs.multi_vector:
        found.append(_figures("multi_vector", texts, ours, theirs))
    # By themselves: among so many short texts nobody sees where a few are cut.
    long = _both(giving, bundle, source, long_texts(source, texts), context)
    found = [replace(each, error=max(each.error or 0.0, _error(each.name, *long))) for each in found]
    if not drawn:
        return tuple(found)
    unknown = _both(giving, bundle, source, drawn, context)
    return tuple(replace(each, drawn_error=_error(each.name, *unknown)) for each in found)


def _both(
    giving: Giving, bundle: Bundle, source: ModelSource, texts: Sequence[str], context: BuildContext
) -> tuple[Sides, Sides]:
    """The program's outputs and the full-precision model's, of each side that a model reads in its own way; queries are the last."""
    assert source.outputs is not None
    vectors = source.outputs.multi_vector
    sides = (False, True) if vectors and vectors.query != vectors.document else (False,)
    ours = [giving.outputs(bundle, texts, query=query) for query in sides]
    theirs = [reference_outputs(source, texts, query=query, context=context) for query in sides]
    for made, exact in zip(ours, theirs, strict=True):
        _require_shapes(texts, made, exact)
    return ours, theirs


def _require_shapes(texts: Sequence[str], made: Sequence[TextOutputs], exact: Sequence[TextOutputs]) -> None:
    if len(made) != len(exact):
        raise VerificationError(f"the bundle gave outputs of {len(made)} texts for {len(exact)}", hint=HINT)
    for text, one, other in zip(texts, made, exact, strict=True):
        if one.vectors.shape != other.vectors.shape:
            raise VerificationError(
                f"the bundle gave vectors {list(one.vectors.shape)} for the tokens of {text[:60]!r}, {list(other.vectors.shape)} "
                "were expected",
                hint=HINT,
            )
        if np.abs(_lengths(one) - _lengths(other)).max(initial=0.0) > LENGTH_TOLERANCE:
            raise VerificationError(
                f"the bundle's vectors for the tokens of {text[:60]!r} have other lengths than the model's",
                hint=HINT,
            )
        if not np.isfinite(one.vectors).all() or not all(
            0 < weight < np.inf for weight in one.sparse.values()
        ):
            raise VerificationError(
                f"the bundle's outputs for {text[:60]!r} are not finite, or weights below zero", hint=HINT
            )


def _lengths(given: TextOutputs) -> Numbers:
    return np.asarray(np.linalg.norm(given.vectors.astype(np.float64), axis=-1))


def _figures(name: Name, texts: Sequence[str], ours: Sides, theirs: Sides) -> OutputFigures:
    """The same of one output."""
    score = _dot if name == "sparse" else _max_sim
    places = {text: at for at, text in enumerate(texts)}
    pairs = [(places[one], places[other]) for one, other in ranking_pairs(texts)]
    made, exact = (
        np.array([score(sides[-1][one], sides[0][other]) for one, other in pairs]) for sides in (ours, theirs)
    )
    by_query = made.reshape(-1, DOCUMENTS), exact.reshape(-1, DOCUMENTS)
    both = [pair for one, other in zip(ours, theirs, strict=True) for pair in zip(one, other, strict=True)]
    agree, largest = zip(*((_tokens if name == "sparse" else _vectors)(*pair) for pair in both), strict=True)
    return OutputFigures(
        name=name,
        texts=len(texts),
        tau=kendall_tau(made, exact),
        kept=float(np.mean([keeps_best(*each) for each in zip(*by_query, strict=True)])),
        agree=float(np.mean(agree)),
        largest=float(max(largest)),
        error=_error(name, ours, theirs),
    )


def _error(name: Name, ours: Sides, theirs: Sides) -> float:
    """Length of all differences, as a share of that of all the reference's numbers."""
    away = size = 0.0
    for made, exact in zip(ours, theirs, strict=True):
        for one, other in zip(made, exact, strict=True):
            difference, numbers = (_weights if name == "sparse" else _numbers)(one, other)
            away += float((difference**2).sum())
            size += float((numbers**2).sum())
    return float(np.sqrt(away / size)) if size else float(away > 0)


def _weights(made: TextOutputs, exact: TextOutputs) -> tuple[Numbers, Numbers]:
    """Differences of the weights of the tokens that either has, and the reference's weights."""
    tokens = sorted(made.sparse.keys() | exact.sparse.keys())
    one, other = (np.array([each.sparse.get(token, 0.0) for token in tokens]) for each in (made, exact))
    return one - other, other


def _numbers(made: TextOutputs, exact: TextOutputs) -> tuple[Numbers, Numbers]:
    """The same of tokens' vectors."""
    numbers = exact.vectors.astype(np.float64)
    return made.vectors - numbers, numbers


def _dot(query: TextOutputs, text: TextOutputs) -> float:
    return sum(weight * text.sparse.get(token, 0.0) for token, weight in query.sparse.items())


def _max_sim(query: TextOutputs, text: TextOutputs) -> float:
    """Of each token of the query the cosine to the nearest of the text's, added up."""
    if not len(query.vectors) or not len(text.vectors):
        return 0.0
    return float((query.vectors.astype(np.float64) @ text.vectors.astype(np.float64).T).max(axis=1).sum())


def _tokens(made: TextOutputs, exact: TextOutputs) -> tuple[float, float]:
    """Share of the notable tokens that both have, and the largest difference of a weight."""
    tokens = made.sparse.keys() | exact.sparse.keys()
    pairs = [(made.sparse.get(token, 0.0), exact.sparse.get(token, 0.0)) for token in tokens]
    least = NOTABLE * max((max(pair) for pair in pairs), default=0.0)
    notable = [pair for pair in pairs if max(pair) >= least]
    kept = np.mean([min(pair) > 0 for pair in notable]) if notable else 1.0
    return float(kept), max((abs(one - other) for one, other in pairs), default=0.0)


def _vectors(made: TextOutputs, exact: TextOutputs) -> tuple[float, float]:
    """Mean cosine of the tokens' vectors, which are of length 1, and the largest difference of a number."""
    if not made.vectors.size:
        return 1.0, 0.0
    cosines = np.einsum("td,td->t", made.vectors.astype(np.float64), exact.vectors.astype(np.float64))
    return float(cosines.mean()), float(np.abs(made.vectors - exact.vectors).max())
