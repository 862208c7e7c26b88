"""What was measured of a bundle's vectors, each figure beside its limit."""

from collections.abc import Iterator
from dataclasses import dataclass

from edgepack.records.model import FLOAT_PRECISIONS
from edgepack.records.report import (
    MAX_OUTPUT_ERROR,
    MAX_SCORE_ERROR,
    MIN_BEST,
    MIN_KEPT,
    MIN_ORDER,
    MIN_TAU,
    OutputFigures,
    Scores,
    Verification,
)
from edgepack.records.target import ModelOptions


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the list."""

    what: str
    value: str
    limit: str = ""
    """``≥ 0.985``; empty: nothing is asked of it."""
    met: bool | None = None
    """``None``: nothing is asked of it."""

    @property
    def mark(self) -> str:
        return "" if self.met is None else "✓" if self.met else "✗"


def heading(found: Verification) -> str:
    """What the vectors were compared with, and on how many texts."""
    quantized = found.against not in FLOAT_PRECISIONS
    reference = f"the given {found.against} file, NOT FULL PRECISION" if quantized else found.against
    return f"vectors compared with {reference}, {found.texts} texts"


def figures(found: Verification) -> list[Figure]:
    """All that was measured; nothing where the bundle did not run."""
    return _all(found) if found.texts else []


def _all(found: Verification) -> list[Figure]:
    parts = (_scores, _outputs, _vectors, _lengths, _tokens, _retrieval, _tasks)
    return [figure for part in parts for figure in part(found)]


def _lengths(found: Verification) -> Iterator[Figure]:
    """Shorter vectors, held to the limits of whole ones."""
    cosine, kept = found.limits.get("min_cosine"), found.limits.get("min_agreement")
    for each in found.lengths:
        at = f"at {each.dimension} dimensions"
        yield Figure(
            what=f"mean cosine {at}",
            value=f"{each.mean_cosine:.4f} (lowest {each.min_cosine:.4f})",
            limit="" if cosine is None else f"≥ {cosine:g}",
            met=None if cosine is None else each.mean_cosine >= cosine,
        )
        yield Figure(
            what=f"nearest neighbour unchanged {at}",
            value=f"{each.neighbour_agreement:.1%} (ten nearest {each.top10_agreement:.1%})",
            limit="" if kept is None else f"≥ {kept:.0%}",
            met=None if kept is None else each.neighbour_agreement >= kept,
        )


def _tasks(found: Verification) -> Iterator[Figure]:
    for task in found.tasks:
        if task.value is None or task.value_fp32 is None:
            yield Figure(what=task.what, value=f"NOT MEASURED: {task.missing}", met=False)
            continue
        limit = found.limits.get(task.limit, getattr(ModelOptions(), task.limit))
        yield Figure(
            what=task.what,
            value=f"{task.value:.4f}",
            limit=f"fp32 {task.value_fp32:.4f} - {limit:g}",
            met=task.value_fp32 - task.value <= limit,
        )


def _scores(found: Verification) -> Iterator[Figure]:
    """Of a reranker or a classifier, whose vectors are only what its last layer takes."""
    if (scores := found.scores) is None:
        return
    for what, value, limit in (
        (
            f"Kendall's tau of the scores of {scores.texts:,} texts",
            f"{scores.tau:.4f}",
            (scores.tau, MIN_TAU),
        ),
        ("best text or label kept", f"{scores.kept:.1%}", (scores.kept, MIN_KEPT)),
    ):
        yield Figure(what=what, value=value, limit=f"≥ {limit[1]:g}", met=limit[0] >= limit[1])
    yield Figure(what="largest difference of a score", value=f"{scores.largest:.4f}")
    yield from _errors("scores: differences", scores, MAX_SCORE_ERROR)
    if scores.same_pairs:
        yield Figure(
            what="tokens of pairs identical", value=f"{scores.same_pairs:,} pairs", limit="all", met=True
        )


def _outputs(found: Verification) -> Iterator[Figure]:
    """Of sparse vectors and of vectors of tokens."""
    for each in found.outputs:
        what = each.name.replace("_", "-")
        order = f"{what}: Kendall's tau of the scores of {each.texts} texts"
        yield Figure(what=order, value=f"{each.tau:.4f}", limit=f"≥ {MIN_ORDER:g}", met=each.tau >= MIN_ORDER)
        kept = f"{what}: best text kept"
        yield Figure(what=kept, value=f"{each.kept:.1%}", limit=f"≥ {MIN_BEST:g}", met=each.kept >= MIN_BEST)
        agree = "tokens in common" if each.name == "sparse" else "mean cosine of tokens"
        yield Figure(what=f"{what}: {agree}", value=f"{each.agree:.4f}")
        yield Figure(what=f"{what}: largest difference of a number", value=f"{each.largest:.2g}")
        yield from _errors(f"{what}: differences", each, MAX_OUTPUT_ERROR)


def _errors(what: str, found: Scores | OutputFigures, limit: float) -> Iterator[Figure]:
    """As shares of the reference's spread, or size."""
    for texts, error in (("", found.error), (" on drawn texts", found.drawn_error)):
        if error is not None:
            yield Figure(
                what=f"{what}{texts}", value=f"{error:.2%}", limit=f"≤ {limit:.0%}", met=error <= limit
            )


def _vectors(found: Verification) -> Iterator[Figure]:
    shares = {"min_agreement", "min_top10"}
    drawn = f"{found.drawn.texts} texts drawn by seed {found.drawn.seed}" if found.drawn else ""
    for what, value, key in (
        ("mean cosine", found.mean_cosine, "min_cosine"),
        ("1st percentile of the cosines", found.p1_cosine, "min_p1_cosine"),
        ("lowest cosine", found.min_cosine, "min_worst_cosine"),
        ("nearest neighbour unchanged", found.neighbour_agreement, "min_agreement"),
        ("ten nearest neighbours in common", found.top10_agreement, "min_top10"),
        ("batch-independent (alone, in a batch of 32)", found.batch_cosine, "min_batch_cosine"),
        ("lowest of texts longer than the model takes", found.long_cosine, "min_long_cosine"),
        ("lowest after the model's prompts", found.prompt_cosine, "min_long_cosine"),
        (f"mean of {drawn}", found.drawn.mean_cosine if found.drawn else None, "min_cosine"),
        (f"lowest of {drawn}", found.drawn.min_cosine if found.drawn else None, "min_worst_cosine"),
        ("the same on other CPUs", found.processor_cosine, "min_processor_cosine"),
    ):
        if value is None:
            continue
        limit = found.limits.get(key)
        yield Figure(
            what=what,
            value=f"{value:.1%}" if key in shares else f"{value:.4f}",
            limit="" if limit is None else f"≥ {limit:.0%}" if key in shares else f"≥ {limit:g}",
            met=None if limit is None else value >= limit,
        )


def _tokens(found: Verification) -> Iterator[Figure]:
    if found.same_tokens:
        yield Figure(what="tokenizer identical", value=f"{found.same_tokens:,} texts", limit="all", met=True)


def _retrieval(found: Verification) -> Iterator[Figure]:
    if found.retrieval_missing:
        yield Figure(what="retrieval", value=f"NOT MEASURED: {found.retrieval_missing}", met=False)
    if (task := found.retrieval) is None:
        return
    limit = found.limits.get("max_retrieval_loss")
    yield Figure(
        what=f"recall@10, {task.queries:,} words among {task.glosses:,} glosses",
        value=f"{task.recall:.4f}",
        limit=f"fp32 {task.recall_fp32:.4f}" + (f" - {limit:g}" if limit is not None else ""),
        met=None if limit is None else task.recall_fp32 - task.recall <= limit,
    )
    yield Figure(what="MRR of the same", value=f"{task.mrr:.4f}", limit=f"fp32 {task.mrr_fp32:.4f}")
    yield Figure(what="ten nearest glosses in common", value=f"{task.top10_agreement:.1%}")
