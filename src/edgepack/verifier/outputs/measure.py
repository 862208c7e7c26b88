"""The gate of sparse vectors and of vectors of tokens: whether texts rank as they do by the full-precision model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgepack.context import BuildContext
from edgepack.errors import VerificationError
from edgepack.models.token_reference import TextOutputs, reference_outputs
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.records.report import OutputFigures
from edgepack.verifier.outputs import multi_vector, sparse
from edgepack.verifier.outputs.order import DOCUMENTS, keeps_best, kendall_tau, ranking_pairs
from edgepack.verifier.outputs.output import Output, TokenProgram
from edgepack.verifier.texts.long import long_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

Sides = Sequence[Sequence[TextOutputs]]

STEP = 2
"""Each second of the verification texts: what tokens have is many numbers."""
LENGTH_TOLERANCE = 1e-3
"""How far the length of a token's vector may be from the reference's, which is 1."""
HINT = "the runner in this bundle is broken; run its `embed --self-test` for details"


OUTPUTS: tuple[Output, ...] = (sparse, multi_vector)


def measure_outputs(
    program: TokenProgram,
    bundle: Bundle,
    source: ModelSource,
    texts: Sequence[str],
    *,
    drawn: Sequence[str] = (),
    context: BuildContext,
) -> tuple[OutputFigures, ...]:
    """Figures of each output beside the full-precision model's; ``drawn`` are texts that no program can know, of which then the long ones are made, too.

    Raises ``VerificationError`` for other tokens than the reference's, or numbers that are none, and what ``program`` raises.
    """
    assert source.outputs is not None
    texts = texts[::STEP]
    ours, theirs = _both(program, bundle, source, texts, context)
    has = [output for output in OUTPUTS if getattr(source.outputs, output.NAME)]
    found = [_figures(output, texts, ours, theirs) for output in has]
    # By themselves: among so many short texts nobody sees where a few are cut.
    long = _both(program, bundle, source, long_texts(source, drawn or texts), context)
    unknown = _both(program, bundle, source, drawn, context) if drawn else None
    return tuple(
        replace(
            figures,
            error=max(figures.error or 0.0, _error(output, *long)),
            drawn_error=_error(output, *unknown) if unknown else None,
        )
        for output, figures in zip(has, found, strict=True)
    )


def _both(
    program: TokenProgram, bundle: Bundle, source: ModelSource, texts: Sequence[str], context: BuildContext
) -> tuple[Sides, Sides]:
    """The program's outputs and the full-precision model's, of each side that a model reads in its own way; queries are the last."""
    assert source.outputs is not None
    vectors = source.outputs.multi_vector
    sides = (False, True) if vectors and vectors.query != vectors.document else (False,)
    ours = [program.outputs(bundle, texts, query=query) for query in sides]
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


def _figures(output: Output, texts: Sequence[str], ours: Sides, theirs: Sides) -> OutputFigures:
    places = {text: at for at, text in enumerate(texts)}
    pairs = [(places[one], places[other]) for one, other in ranking_pairs(texts)]
    made, exact = (
        np.array([output.score(sides[-1][one], sides[0][other]) for one, other in pairs])
        for sides in (ours, theirs)
    )
    by_query = made.reshape(-1, DOCUMENTS), exact.reshape(-1, DOCUMENTS)
    both = [pair for one, other in zip(ours, theirs, strict=True) for pair in zip(one, other, strict=True)]
    agree, largest = zip(*(output.agreement(*pair) for pair in both), strict=True)
    return OutputFigures(
        name=output.NAME,
        texts=len(texts),
        tau=kendall_tau(made, exact),
        kept=float(np.mean([keeps_best(*each) for each in zip(*by_query, strict=True)])),
        agree=float(np.mean(agree)),
        largest=float(max(largest)),
        error=_error(output, ours, theirs),
    )


def _error(output: Output, ours: Sides, theirs: Sides) -> float:
    """Length of all differences, as a share of that of all the reference's numbers."""
    away = size = 0.0
    for made, exact in zip(ours, theirs, strict=True):
        for one, other in zip(made, exact, strict=True):
            difference, numbers = output.differences(one, other)
            away += float((difference**2).sum())
            size += float((numbers**2).sum())
    return float(np.sqrt(away / size)) if size else float(away > 0)
