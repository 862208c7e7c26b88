"""The gate of rerankers and classifiers: whether scores keep their order, and texts their label, beside the full-precision model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from edgepack.context import BuildContext
from edgepack.errors import ProofError, VerificationError
from edgepack.models.heads.classification import head_weights
from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import minimal_json
from edgepack.models.reference import cached_reference, reference_vectors
from edgepack.records.bundle import OWN_KINDS, Bundle
from edgepack.records.model import Head, ModelSource, Task
from edgepack.records.report import Scores
from edgepack.verifier.outputs.order import DOCUMENTS, Pair, keeps_best, kendall_tau, ranking_pairs
from edgepack.verifier.outputs.output import ScoringProgram
from edgepack.verifier.texts.fuzz import fuzz_texts_for
from edgepack.verifier.texts.long import long_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

TOKEN_PAIRS = 4200
SEED = 20261122
LEAST_SPREAD = 0.01
"""Scores that are nearer to each other than that tell nothing apart: they are compared in hundredths."""


def measure_scores(
    program: ScoringProgram,
    bundle: Bundle,
    source: ModelSource,
    texts: Sequence[str],
    *,
    drawn: Sequence[str] = (),
    seed: int | None = None,
    context: BuildContext,
) -> Scores:
    """How scores compare with those of the full-precision model; and, of a reranker, that pairs are tokenized alike.

    ``drawn`` are texts that no program can know, by ``seed``, whose scores are compared, too; then the long ones are made of them, and the pairs are other ones.
    Raises ``VerificationError`` for other tokens or scores that are none, and what ``program`` raises.
    """
    assert source.head is not None
    asked: Sequence[str | Pair] = texts if source.head.task == "classes" else ranking_pairs(texts)
    theirs = reference_scores(source, asked, context=context)
    figures = score_figures(source.head.task, _scores_of(program, bundle, asked, theirs), theirs)
    # By themselves: among so many short texts nobody sees where a few are cut.
    cut = longer_than_the_model(source, drawn or texts)
    # What nobody asks again is not kept.
    reference = reference_vectors if drawn else cached_reference
    whole = _scored(source, reference(source, cut, context=context))
    spread = _spread(theirs)
    error = _error(_scores_of(program, bundle, cut, whole), whole, spread=spread)
    figures = replace(figures, error=max(figures.error or 0.0, error))
    if drawn:
        unknown = drawn if source.head.task == "classes" else _drawn_pairs(drawn)
        theirs = _scored(source, reference_vectors(source, unknown, context=context))
        error = _error(_scores_of(program, bundle, unknown, theirs), theirs)
        figures = replace(figures, drawn_error=error)
    if source.head.task == "classes":
        # Entailment and the like: the same program takes two texts. One that takes none gives no scores of them.
        both = _drawn_pairs(drawn or texts)
        whole = _scored(source, reference(source, both, context=context))
        try:
            error = _error(_scores_of(program, bundle, both, whole), whole, spread=spread)
        except ProofError:
            if bundle.manifest["runner"]["kind"] in OWN_KINDS:
                raise
            return figures
        figures = replace(figures, error=max(figures.error or 0.0, error))
    return replace(
        figures, same_pairs=_compare_pairs(program, bundle, source, texts, SEED if seed is None else seed)
    )


def scores_of(
    embed: Callable[[Sequence[str | Pair]], NDArray[np.float32]],
    source: ModelSource,
    texts: Sequence[str],
    *,
    context: BuildContext,
) -> Scores:
    """Scores of vectors that ``embed`` makes, [texts, dimension], and the source's own last layer."""
    assert source.head is not None
    asked: Sequence[str | Pair] = texts if source.head.task == "classes" else ranking_pairs(texts)
    theirs = reference_scores(source, asked, context=context)
    return score_figures(source.head.task, _scored(source, embed(asked)), theirs)


def score_figures(task: Task, ours: Numbers, theirs: Numbers) -> Scores:
    """How scores [texts, labels] compare with others of the same texts, or of the pairs of ``ranking_pairs``."""
    largest = float(np.abs(ours - theirs).max())
    if task == "classes":
        kept = float((ours.argmax(axis=1) == theirs.argmax(axis=1)).mean())
        tau = kendall_tau(ours.max(axis=1), theirs.max(axis=1))
    else:
        by_query = ours.reshape(-1, DOCUMENTS), theirs.reshape(-1, DOCUMENTS)
        kept = float(np.mean([keeps_best(*each) for each in zip(*by_query, strict=True)]))
        tau = kendall_tau(ours[:, 0], theirs[:, 0])
    return Scores(texts=len(ours), tau=tau, kept=kept, largest=largest, error=_error(ours, theirs))


def activated(head: Head, numbers: Numbers) -> Numbers:
    """Scores that a program makes of the head's numbers [texts, labels]."""
    if head.activation == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-numbers)))
    if head.activation == "one-vs-rest":
        apart = 1 / (1 + np.exp(-numbers))
        return np.asarray(apart / apart.sum(axis=1, keepdims=True))
    if head.activation == "softmax":
        shares = np.exp(numbers - numbers.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))
    return numbers


def reference_scores(source: ModelSource, texts: Sequence[str | Pair], *, context: BuildContext) -> Numbers:
    """The full-precision model's scores, float64 [texts, labels]."""
    return _scored(source, cached_reference(source, texts, context=context))


def _scored(source: ModelSource, vectors: NDArray[np.float32]) -> Numbers:
    assert source.head is not None
    weight, bias = head_weights(source.head, source.dimension)
    return activated(source.head, vectors.astype(np.float64) @ weight.T.astype(np.float64) + bias)


def _error(ours: Numbers, theirs: Numbers, *, spread: float | None = None) -> float:
    """Root mean square of the differences, as a share of a spread, ``None`` that of ``theirs``; [texts, labels] each."""
    return float(np.sqrt(((ours - theirs) ** 2).mean())) / (_spread(theirs) if spread is None else spread)


def _spread(scores: Numbers) -> float:
    """How far scores [texts, labels] are from each label's mean, as a root mean square."""
    return max(float(np.sqrt(((scores - scores.mean(axis=0)) ** 2).mean())), LEAST_SPREAD)


def longer_than_the_model(source: ModelSource, texts: Sequence[str]) -> Sequence[str | Pair]:
    """Texts that are longer than the model takes; of a reranker each as a text, as a query, and as both."""
    assert source.head is not None
    long = long_texts(source, texts)
    if source.head.task == "classes":
        return long
    return [
        pair
        for at, text in enumerate(long)
        for pair in ((texts[at], text), (text, texts[at]), (text, long[at - 1]))
    ]


def _drawn_pairs(texts: Sequence[str]) -> list[Pair]:
    """Each text with its own beginning and with another text, so that scores spread."""
    own = [(text[: len(text) // 2], text) for text in texts[::2]]
    return own + list(zip(texts[::2], texts[1::2], strict=False))


def _scores_of(
    program: ScoringProgram, bundle: Bundle, texts: Sequence[str | Pair], theirs: Numbers
) -> Numbers:
    """The program's scores; raises ``VerificationError`` where they cannot be compared with the reference's."""
    ours = np.asarray(program.scores(bundle, texts), np.float64)
    if ours.shape != theirs.shape or not np.isfinite(ours).all():
        raise VerificationError(
            f"the bundle gave scores {list(ours.shape)} or numbers that are not finite, {list(theirs.shape)} were expected",
            hint="the runner in this bundle is broken; run its `embed --self-test` for details",
        )
    return ours


@panics_reported()
def _compare_pairs(
    program: ScoringProgram, bundle: Bundle, source: ModelSource, texts: Sequence[str], seed: int
) -> int:
    """How many pairs were tokenized alike; raises ``VerificationError`` with the first that was not."""
    reference = Tokenizer.from_str(minimal_json(source))
    strange = [*texts, *fuzz_texts_for(reference, TOKEN_PAIRS, seed=seed)]
    pairs = list(zip(strange[:TOKEN_PAIRS], reversed(strange), strict=False))
    reference.enable_truncation(source.max_length)
    found = program.pair_tokens(bundle, pairs)
    for pair, encoding, (ids, types) in zip(pairs, reference.encode_batch_fast(pairs), found, strict=True):
        # The program gives a pair of no tokens one of padding.
        if encoding.ids and (ids, types) != (encoding.ids, encoding.type_ids):
            raise VerificationError(
                f"the bundle's tokenizer makes other tokens than tokenizers does of the pair {pair!r}",
                hint="please report it with the model's name; --target linux-x86 has the library",
            )
    return len(pairs)
