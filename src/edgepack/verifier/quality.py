"""The gate: how good vectors are, measured on whatever makes them, and what of that falls below a target's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgepack.bundles.model_section import shortening
from edgepack.context import BuildContext
from edgepack.models.reference import cached_reference
from edgepack.records.model import ModelSource
from edgepack.records.report import LengthFigure, Retrieval, TaskFigure, Verification
from edgepack.records.target import ModelOptions
from edgepack.verifier.metrics import compare, lowest_cosine, rank, shared
from edgepack.verifier.tasks.asked import task_figures
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
    nearness = compare(vectors, cached_reference(source, texts, context=context))
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
        lengths=tuple(_at_lengths(vectors, cached_reference(source, texts, context=context), source)),
    )
    if not full or source.head is not None:
        return figures
    figures = replace(figures, tasks=tuple(task_figures(embed, source, context=context)))
    try:
        return replace(figures, retrieval=measure_retrieval(embed, source, context=context))
    except NoWordNet as missing:
        return replace(figures, retrieval_missing=missing.reason)


def _at_lengths(vectors: Vectors, reference: Vectors, source: ModelSource) -> Iterator[LengthFigure]:
    """Vectors cut as the program does it, at each length that the model names beside its own, longest first."""
    if (trained := shortening(source)) is None or source.head is not None:
        return
    for dimension in sorted(set(trained["dimensions"]) - {source.dimension}, reverse=True):
        cut = (_cut(each, dimension, center=trained["layer_norm"]) for each in (vectors, reference))
        found = compare(*cut)
        yield LengthFigure(
            dimension=dimension,
            mean_cosine=found.mean_cosine,
            min_cosine=found.min_cosine,
            neighbour_agreement=found.neighbour_agreement,
            top10_agreement=found.top10_agreement,
        )


def _cut(vectors: Vectors, dimension: int, *, center: bool) -> Vectors:
    """The first numbers of each, less the mean of all where a layer normalisation comes before the cut."""
    return (vectors - vectors.mean(axis=1, keepdims=True) if center else vectors)[:, :dimension]


def batch_independence(embed: Embed, together: Embed, texts: Sequence[str]) -> float:
    """The lowest cosine between texts' vectors alone and among 31 others of other lengths."""
    step = max(len(texts) // COMPANY, 1)
    company = list(texts[::step])[:COMPANY]
    among = together(company)
    chosen = [at for at in ALONE if at < len(company)]
    alone = np.concatenate([embed([company[at]]) for at in chosen])
    return lowest_cosine(alone, among[chosen])


def measure_retrieval(
    embed: Embed, source: ModelSource, *, glosses: int = GLOSSES, words: int = WORDS, context: BuildContext
) -> Retrieval:
    """How well words find their glosses, by ``embed`` and by the full-precision model; raises ``NoWordNet``.

    Where a model has prompts for queries and for texts, they are put before words and glosses.
    """
    task = retrieval_task(glosses=glosses, words=words, context=context)
    asked = [_prompt(source, QUERY_PROMPTS) + word for word in task.words]
    texts = [_prompt(source, TEXT_PROMPTS) + gloss for gloss in task.glosses]
    belongs = np.asarray(task.belongs)
    made, exact = embed([*asked, *texts]), cached_reference(source, [*asked, *texts], context=context)
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


def shortfalls(found: Verification, options: ModelOptions) -> list[str]:
    """What is below the target's limits, in words with the figures; nothing when all is well.

    What a limit asks for and nothing has measured counts as below it.
    """
    limits: list[tuple[str, float | None, float]] = [
        ("mean cosine", found.mean_cosine, options.min_cosine),
        ("1st percentile of the cosines", found.p1_cosine, options.min_p1_cosine),
        ("lowest cosine", found.min_cosine, options.min_worst_cosine),
        ("nearest neighbour unchanged", found.neighbour_agreement, options.min_agreement),
        ("ten nearest neighbours in common", found.top10_agreement, options.min_top10),
        ("batch-independent cosine", found.batch_cosine, options.min_batch_cosine),
    ]
    # Not every measurement is made of a bundle, by the program on the device, or elsewhere.
    if (cosine := found.long_cosine) is not None:
        limits.append(("lowest cosine of texts longer than the model takes", cosine, options.min_long_cosine))
    if (cosine := found.prompt_cosine) is not None:
        limits.append(("cosine after the model's prompts", cosine, options.min_long_cosine))
    if (drawn := found.drawn) is not None:
        seed = f"of the texts drawn by seed {drawn.seed}"
        limits.append((f"mean cosine {seed}", drawn.mean_cosine, options.min_cosine))
        limits.append((f"lowest cosine {seed}", drawn.min_cosine, options.min_worst_cosine))
    # A bundle that is verified again has no proofs of other processors.
    if (cosine := found.processor_cosine) is not None:
        limits.append(("cosine on other CPUs", cosine, options.min_processor_cosine))
    short = [_below(what, value, limit) for what, value, limit in limits if limit > 0]
    short += [
        _below(f"{what} at {each.dimension} dimensions", value, limit)
        for each in found.lengths
        for what, value, limit in _length_limits(each, options)
        if limit > 0
    ]
    return [
        *filter(None, short),
        *_retrieval_shortfall(found, options),
        *_task_shortfalls(found.tasks, options),
    ]


def _length_limits(found: LengthFigure, options: ModelOptions) -> tuple[tuple[str, float, float], ...]:
    return (
        ("mean cosine", found.mean_cosine, options.min_cosine),
        ("lowest cosine", found.min_cosine, options.min_worst_cosine),
        ("nearest neighbour unchanged", found.neighbour_agreement, options.min_agreement),
        ("ten nearest neighbours in common", found.top10_agreement, options.min_top10),
    )


def _task_shortfalls(found: Sequence[TaskFigure], options: ModelOptions) -> Iterator[str]:
    for each in found if options.gate == "full" else ():
        limit = getattr(options, each.limit)
        if limit >= 1:
            continue
        if each.value is None or each.value_fp32 is None:
            yield f"{each.what} was not measured ({each.missing}), a loss of at most {limit:g} is allowed"
        elif not each.value_fp32 - each.value <= limit:
            loss = f"{each.value_fp32 - each.value:.4f} below fp32's {each.value_fp32:.4f}"
            yield f"{each.what}: {each.value:.4f} is {loss}, at most {limit:g} is allowed"


def _below(what: str, value: float | None, limit: float) -> str:
    if value is None:
        return f"{what} was not measured, at least {limit:g} is required"
    return f"{what} {value:.4f} is below {limit:g}" if value < limit else ""


def _retrieval_shortfall(found: Verification, options: ModelOptions) -> list[str]:
    limit = options.max_retrieval_loss
    if options.gate != "full" or limit >= 1:
        return []
    if found.retrieval is None:
        return [
            f"the loss of recall@10 was not measured ({found.retrieval_missing}), at most {limit:g} is allowed"
        ]
    loss = found.retrieval.recall_fp32 - found.retrieval.recall
    if loss <= limit:
        return []
    ours, exact = f"{found.retrieval.recall:.4f}", f"{found.retrieval.recall_fp32:.4f}"
    return [f"recall@10 {ours} is {loss:.4f} below fp32's {exact}, at most {limit:g} is allowed"]


def _prompt(source: ModelSource, purposes: Sequence[str]) -> str:
    return next((source.prompts[purpose] for purpose in purposes if purpose in source.prompts), "")
