"""The gate: how good vectors are, measured on whatever makes them, and what of that falls below a target's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgepack.bundles.model_section import shortening
from edgepack.context import BuildContext
from edgepack.models.reference import cached_reference
from edgepack.records.model import ModelSource
from edgepack.records.report import LengthFigure, Retrieval, Verification
from edgepack.verifier.metrics import compare, length_error, lowest_cosine, rank, shared
from edgepack.verifier.tasks.full_gate import task_figures
from edgepack.verifier.tasks.wordnet import NoWordNet, retrieval_task

if TYPE_CHECKING:
    Vectors = NDArray[np.float32]
    Embed = Callable[[Sequence[str]], Vectors]
    """Texts to vectors, float32 [len(texts), dimension], in one batch if the maker works in batches."""

COMPANY = 32
ALONE = (0, 13, 31)
"""Which of 32 texts are embedded once more, each alone."""
GLOSSES = 2000
WORDS = 1000
QUERY_PROMPTS = ("query", "search_query")
TEXT_PROMPTS = ("passage", "document", "search_document")


def measure_quality(
    embed: Embed,
    source: ModelSource,
    texts: Sequence[str],
    *,
    together: Embed | None = None,
    full: bool = False,
    context: BuildContext,
) -> Verification:
    """Every figure of the gate for ``embed``, against the full-precision model; not yet judged.

    ``together`` is how texts are embedded in one batch, where ``embed`` takes them one by one. ``full`` adds tasks of real texts, for embedding models; where those cannot be had, the figures say so.
    """
    vectors = embed(texts)
    reference = partial(cached_reference, source, context=context)
    exact = reference(texts)
    nearness = compare(vectors, exact)
    figures = Verification(
        status="passed",
        against=source.precision,
        texts=len(nearness.cosines),
        cosines=tuple(round(cosine, 5) for cosine in nearness.cosines),
        mean_cosine=nearness.mean_cosine,
        p1_cosine=nearness.p1_cosine,
        min_cosine=nearness.min_cosine,
        neighbour_agreement=nearness.neighbour_agreement,
        top10_agreement=nearness.top10_agreement,
        batch_cosine=batch_independence(embed, together or embed, texts),
        lengths=tuple(_at_lengths(vectors, exact, source)),
    )
    figures = with_lengths(figures, source, vectors, exact)
    if not full or source.head is not None:
        return figures
    figures = replace(figures, tasks=tuple(task_figures(embed, source, context=context)))
    try:
        return replace(
            figures, retrieval=measure_retrieval(embed, reference, source.prompts, context=context)
        )
    except NoWordNet as missing:
        return replace(figures, retrieval_missing=missing.reason)


def with_lengths(
    figures: Verification, source: ModelSource, vectors: Vectors, reference: Vectors
) -> Verification:
    """The figures with how long these vectors are, too, of a model that does not normalize: an order by dot products goes by it.

    Scores, sparse weights and tokens' vectors are compared by themselves.
    """
    if source.pooling.unit or source.head is not None or source.outputs is not None:
        return figures
    return replace(figures, length_error=max(figures.length_error or 0.0, length_error(vectors, reference)))


def _at_lengths(vectors: Vectors, reference: Vectors, source: ModelSource) -> Iterator[LengthFigure]:
    for (dimension, cut), (_, exact) in zip(
        shorter(vectors, source), shorter(reference, source), strict=True
    ):
        found = compare(cut, exact)
        yield LengthFigure(
            dimension=dimension,
            mean_cosine=found.mean_cosine,
            min_cosine=found.min_cosine,
            neighbour_agreement=found.neighbour_agreement,
            top10_agreement=found.top10_agreement,
        )


def shorter(vectors: Vectors, source: ModelSource) -> Iterator[tuple[int, Vectors]]:
    """Vectors cut to each length that the model names beside its own, longest first: the first numbers of each, less the mean of all where
    a layer normalisation comes before the cut.
    """
    if (trained := shortening(source)) is None or source.head is not None:
        return
    whole = vectors - vectors.mean(axis=1, keepdims=True) if trained["layer_norm"] else vectors
    for dimension in sorted(set(trained["dimensions"]) - {source.dimension}, reverse=True):
        yield dimension, whole[:, :dimension]


def batch_independence(embed: Embed, together: Embed, texts: Sequence[str]) -> float:
    """The lowest cosine between texts' vectors alone and among 31 others of other lengths."""
    step = max(len(texts) // COMPANY, 1)
    company = list(texts[::step])[:COMPANY]
    among = together(company)
    chosen = [at for at in ALONE if at < len(company)]
    alone = np.concatenate([embed([company[at]]) for at in chosen])
    return lowest_cosine(alone, among[chosen])


def measure_retrieval(
    embed: Embed,
    reference: Embed,
    prompts: Mapping[str, str],
    *,
    glosses: int = GLOSSES,
    words: int = WORDS,
    context: BuildContext,
) -> Retrieval:
    """Measure how well words find their glosses, by ``embed`` and by the full-precision model's ``reference``; raises ``NoWordNet``.

    The model's prompts for queries and for texts are put before words and glosses.
    """
    task = retrieval_task(glosses=glosses, words=words, context=context)
    asked = [_prompt(prompts, QUERY_PROMPTS) + word for word in task.words]
    texts = [_prompt(prompts, TEXT_PROMPTS) + gloss for gloss in task.glosses]
    belongs = np.asarray(task.belongs)
    made, exact = embed([*asked, *texts]), reference([*asked, *texts])
    ours = rank(made[: len(asked)], made[len(asked) :], belongs)
    theirs = rank(exact[: len(asked)], exact[len(asked) :], belongs)
    return Retrieval(
        glosses=len(texts),
        queries=len(asked),
        recall=ours.recall,
        recall_fp32=theirs.recall,
        mrr=ours.mrr,
        mrr_fp32=theirs.mrr,
        top10_agreement=shared(ours.nearest, theirs.nearest),
    )


def _prompt(prompts: Mapping[str, str], purposes: Sequence[str]) -> str:
    return next((prompts[purpose] for purpose in purposes if purpose in prompts), "")
