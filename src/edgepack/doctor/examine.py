"""An examination: texts are asked for, hypotheses are tried, findings put into words."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from edgepack.bundles.model_section import shortening
from edgepack.context import BuildContext
from edgepack.doctor import findings as words
from edgepack.doctor.fit import Numbers, apart, compare, directions, spread
from edgepack.doctor.gather import CHANGED, Batch, Gathered
from edgepack.doctor.halves import Halves, Unanswered
from edgepack.doctor.hypothesis import Hypothesis, Padding, vectors_of
from edgepack.doctor.misreadings import Reader
from edgepack.doctor.search import SHORT, Search
from edgepack.doctor.verdict import Cosines, Diagnosis, Finding, gravest_first
from edgepack.errors import UsageError
from edgepack.models.reference import exported_model
from edgepack.records.model import ModelSource

SECONDS = 15.0
"""For the search."""
SAME = 5e-4
"""Share of the spread that bfloat16 stays below."""
ROUNDED = 0.25
"""Share of the spread beyond which no quantization is worth the name."""
UNRELATED = 1.6
"""Share of the spread from which on vectors have nothing to do with the model's (2: nothing at all)."""
NEAR = 0.05
"""Share of the spread within which a vector is a text's, whichever text's that is."""
CONSTANT = 1e-9
OF_LENGTH_ONE = 0.01


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Expected settings of the subject, where they differ from those of the model's files."""

    prefix: str = ""
    length: int
    dimension: int
    min_cosine: float


@dataclass(frozen=True, kw_only=True)
class Instruments:
    """The model, ready to be asked."""

    source: ModelSource
    reader: Reader
    halves: Halves


def instruments(source: ModelSource, *, context: BuildContext) -> Instruments:
    """Tokenizer and full-precision graph of a model."""
    return Instruments(
        source=source,
        reader=Reader(source),
        halves=Halves(exported_model(source, context=context), source),
    )


def diagnose(
    gathered: Gathered, expected: Expected, tools: Instruments, *, subject: str, seconds: float = SECONDS
) -> Diagnosis:
    """Diagnosis of the vectors. ``seconds`` is how long hypotheses are tried."""
    started = time.monotonic()
    notes = [*tools.source.warnings, *gathered.notes]
    dimension = int(gathered.observed.vectors.shape[1])
    made = partial(
        Diagnosis,
        model=tools.source.name,
        subject=subject,
        dimension=dimension,
        texts_sent=gathered.sent,
        largest_batch=gathered.largest,
    )
    if spread(directions(gathered.observed.vectors, dimension)) < CONSTANT:
        finding = words.finding("unclear", "every text gets one and the same vector")
        return made(seconds=0.0, cosines=None, explained=None, findings=(finding,))
    try:
        search = Search(
            gathered.observed,
            Hypothesis(length=expected.length, prefix=expected.prefix),
            prompts=tuple(tools.source.prompts.values()),
            reader=tools.reader,
            halves=tools.halves,
            deadline=started + seconds,
        )
    except Unanswered as why:
        if dimension <= tools.source.dimension:
            raise UsageError(f"{why}", hint="--max-length exceeds the positions of the model") from why
        said = f"the vectors have {dimension} numbers, the model's have {tools.source.dimension}"
        finding = words.finding("another-model", said)
        return made(seconds=time.monotonic() - started, cosines=None, explained=None, findings=(finding,))
    order = _order(search, search.expected)
    best = search.best() if order is None else search.expected
    if search.hurried:
        notes.append(f"not all hypotheses were tried in {seconds:.0f} s")
    order = order or _order(search, best)
    findings = [order] if order is not None else [*_rest(search, best, expected, notes)]
    if not any(each.verdict in ("unclear", "another-model") for each in findings):
        findings += words.changes(search, best)
        findings += _lengths(search, best, expected, tools.source, notes)
    elif best != search.expected:
        notes.append(
            f"nearest: {words.differences(best, search.expected)}, mean cosine {search.cosine(best):.4f}"
        )
    if gathered.unsteady > CHANGED:
        findings = [words.finding("random", "the same text gives another vector each time")]
    elif gathered.batch is not None and gathered.batch.matters:
        findings += _batch(gathered.batch, search, best, notes)
    if gathered.large is not None and not {each.verdict for each in findings} & {
        "random",
        "order",
        "padding",
        "batch",
    }:
        findings = [*findings, _large(gathered.large, search)]
    expects = search.usable(search.expected)
    return made(
        seconds=time.monotonic() - started,
        cosines=_cosines(search, search.expected) if expects else None,
        explained=_cosines(search, best) if best != search.expected else None,
        findings=gravest_first(findings),
        notes=tuple(notes),
    )


def _cosines(search: Search, hypothesis: Hypothesis) -> Cosines:
    cosines = 1 - apart(search.found, search.predicted(hypothesis)) / 2
    return Cosines(
        texts=len(cosines),
        mean=float(cosines.mean()),
        p1=float(np.percentile(cosines, 1)),
        least=float(cosines.min()),
    )


def _rest(search: Search, best: Hypothesis, expected: Expected, notes: list[str]) -> Sequence[Finding]:
    """Findings on the vectors that the best hypothesis does not explain."""
    shares = apart(search.found, search.predicted(best)) / search.unit
    # No vector of another model is the same by chance.
    exact = int((shares < SAME).sum()) >= 3
    off = np.flatnonzero(shares > (3e-3 if exact else 30 * float(np.percentile(shares, 15))))
    clear = len(off) >= 2 and (exact or shares[off].min() > 0.1)
    found: list[Finding] = []
    if clear:
        texts = [search.observed.texts[at] for at in off]
        long = bool(search.counts[off].min() > SHORT)
        found.append(words.odd(texts, len(shares), long=long))
        shares = np.delete(shares, off)
    share = float(shares.mean())
    cosine = 1 - share * search.unit / 2
    if share > ROUNDED:
        kept = similarities(search.found, search.predicted(search.expected))
        notes.append(f"similarities between texts correlate {kept:.3f} with the model's")
        return [words.unexplained(share > UNRELATED, cosine, kept)]
    if share > SAME:
        found.append(words.rounded(cosine, expected.min_cosine))
    return found


def _order(search: Search, hypothesis: Hypothesis) -> Finding | None:
    """Whether many vectors are other texts' of the same file or request."""
    if not search.usable(hypothesis):
        return None
    predicted = search.predicted(hypothesis)
    nearest = (search.found @ predicted.T).argmax(axis=1)
    places = np.arange(len(nearest))
    there = apart(search.found, predicted[nearest]) / search.unit < NEAR
    here = apart(search.found, predicted) / search.unit < ROUNDED
    moved = there & ~here & (nearest != places)
    if moved.sum() < max(2, 0.2 * len(places)) or len(set(nearest[moved])) < 0.9 * moved.sum():
        return None
    return words.misplaced([(int(at), int(nearest[at])) for at in np.flatnonzero(moved)], len(places))


def similarities(found: Numbers, predicted: Numbers) -> float:
    """How the cosines between texts correlate with the model's own: 1 where vectors are only turned."""
    rows, columns = np.triu_indices(len(found), 1)
    ours, theirs = ((each @ each.T)[rows, columns] for each in (found, predicted))
    return float(np.corrcoef(ours, theirs)[0, 1]) if ours.std() and theirs.std() else 0.0


def _lengths(
    search: Search, best: Hypothesis, expected: Expected, source: ModelSource, notes: list[str]
) -> Sequence[Finding]:
    """Findings on the vectors' lengths and their dimension."""
    vectors = search.observed.vectors
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    whole = vectors_of(best, search.observed.texts, search.reader, search.halves).astype(np.float64)
    raw = np.linalg.norm(whole, axis=1)
    kept = np.linalg.norm(whole[:, : search.dimension], axis=1)
    cut = search.dimension < whole.shape[1]
    is_one = bool((np.abs(lengths - 1) <= OF_LENGTH_ONE).all())
    found: list[Finding] = []
    if search.dimension != expected.dimension and best.head == search.expected.head:
        again = is_one or not source.pooling.normalize
        found.append(words.cut_short(search.dimension, expected.dimension, again, source))
        if not again and np.allclose(lengths, kept / raw, rtol=0.02):
            return found
    known = shortening(source)
    if cut and known is not None and search.cut_is_clear and search.centred != known["layer_norm"]:
        found.append(words.cut_otherwise(search.centred))
    if is_one:
        if not source.pooling.normalize:
            notes.append(
                "the vectors are of length 1, the model's are not: cosines are the same, dot products are not"
            )
        return found
    if not source.pooling.normalize and not cut and np.allclose(lengths, raw, rtol=0.02):
        return found
    return [*found, words.wrong_length(lengths, lengths / kept, vectors, source.pooling.normalize)]


def _large(batch: Batch, search: Search) -> Finding:
    """Finding on a large request that does what smaller ones do not."""
    alone, together = (directions(each, search.dimension) for each in (batch.alone, batch.together))
    moved = np.flatnonzero(batch.moved > CHANGED)
    nearest = (together[moved] @ alone.T).argmax(axis=1)
    if (apart(together[moved], alone[nearest]) / search.unit < CHANGED).all():
        places = [(int(at), int(to)) for at, to in zip(moved, nearest, strict=True)]
        return words.misplaced(places, len(batch.texts), many=True)
    least = float(1 - apart(alone, together).max() / 2)
    return words.crowded(len(moved), len(batch.texts), least)


def _batch(batch: Batch, search: Search, best: Hypothesis, notes: list[str]) -> Sequence[Finding]:
    """Findings on texts whose vectors depend on the texts beside them."""
    if best.padding is not None:
        return []
    count = len(batch.alone)
    alone, together = (directions(each, search.dimension) for each in (batch.alone, batch.together))
    nearest = (alone @ together.T).argmax(axis=1)
    if (nearest != np.arange(count)).any() and (
        apart(alone, together[nearest]) / search.unit < CHANGED
    ).all():
        return [words.misplaced([(int(to), at) for at, to in enumerate(nearest) if at != to], count)]
    together = together[:count]
    least = float(1 - apart(alone, together).max() / 2)
    rows = np.argsort(-batch.moved)[:4]
    texts = [batch.texts[row] for row in rows]
    simpler = directions(vectors_of(best, texts, search.reader, search.halves), search.dimension)
    sizes = sorted({len(search.whole(best, text)) for text in batch.texts})
    for attended in (False, True):
        for to in reversed(sizes):
            padded = replace(best, padding=Padding(to, attended))
            try:
                other = directions(vectors_of(padded, texts, search.reader, search.halves), search.dimension)
            except Unanswered:
                continue
            comparison = compare(together[rows], simpler, other)
            if comparison.convinces and comparison.gain > 0.5:
                return [replace(words.padded(attended, "the longest text of a batch"), without=least)]
    share = float((apart(alone, search.predicted(best, range(count))) / search.unit).mean())
    if share > SAME and batch.moved.mean() < 4 * share:
        notes.append(
            f"a text's vector depends on the texts beside it (cosine down to {least:.4f}), as dynamic quantization makes it"
        )
        return []
    said = f"a text's vector depends on the texts beside it (cosine down to {least:.4f})"
    return [words.finding("batch", said)]
