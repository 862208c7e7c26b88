"""The search for the hypothesis that explains a server's vectors best."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from edgepack.doctor.fit import LIKE, Comparison, Numbers, apart, compare, directions, spread
from edgepack.doctor.halves import Halves, Unanswered, Vectors
from edgepack.doctor.hypothesis import (
    INNER_MEAN,
    MODEL,
    POOLER,
    POOLINGS,
    Hypothesis,
    Padding,
    Side,
    Specials,
    cut,
    vectors_of,
)
from edgepack.doctor.misreadings import MISREADINGS, OWN, Reader

EXACT = 1e-6
"""Share of the spread: nothing is left to explain; float32 against float32 is 1e-12."""
SURE = 1e-3
GOOD = 0.02
NOISE = 0.15
"""Below this, what is left may be rounding of the weights; no pairs of mistakes are tried."""
CORE = 16
FEW = 6
SAMPLE = 24
SCANNED = 6
"""Lengths that are all tried."""
VERY_SHORT = 24
SHORT = 64
"""Tokens."""
SPECIALS: tuple[Specials, ...] = ("all", "none", "not the first", "not the last", "twice")
USUAL_LENGTHS = (16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 768, 1024)
USUAL_PROMPTS = (
    "query: ",
    "passage: ",
    "search_query: ",
    "search_document: ",
    "Represent this sentence for searching relevant passages: ",
    "Represent this sentence: ",
)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Texts that were asked and the vectors that came back: of each text alone, or in batches that made no difference."""

    texts: tuple[str, ...]
    vectors: Vectors
    """float32 [texts, dimension]."""


class Search:
    """Tries hypotheses on what was observed until a deadline."""

    def __init__(
        self,
        observed: Observed,
        expected: Hypothesis,
        *,
        prompts: Sequence[str],
        reader: Reader,
        halves: Halves,
        deadline: float,
    ) -> None:
        self.observed = observed
        self.expected = expected
        known = [expected.prefix, *prompts]
        self.prompts = tuple(dict.fromkeys(["", *known, *(each * 2 for each in known), *USUAL_PROMPTS]))
        self.reader = reader
        self.halves = halves
        self.deadline = deadline
        self.hurried = False
        """Whether there was no time for some hypotheses."""
        self.centred, self.cut_is_clear = False, False
        """Whether vectors are cut after a layer normalisation, and whether they go clearly one of the two ways."""
        self.found = directions(observed.vectors, self.dimension)
        self.counts = np.array([len(reader.read(text).ids) for text in observed.texts])
        self.unit = self._unit()
        self.centred, self.cut_is_clear = self._centred()

    def _unit(self) -> float:
        for hypothesis in self._poolings(self.expected):
            try:
                return spread(self.predicted(hypothesis))
            except Unanswered as why:
                unanswered = why
        raise unanswered

    def _centred(self) -> tuple[bool, bool]:
        """Whether cut vectors go towards the model's after a layer normalisation (nomic-embed-text-v1.5), and whether that is clear."""
        whole = vectors_of(self.expected, self.observed.texts, self.reader, self.halves)
        if whole.shape[1] <= self.dimension:
            return False, False
        plain, centred = (directions(whole, self.dimension, centred=each) for each in (False, True))
        found = compare(self.found, plain, centred)
        return found.like > 0.5, found.texts > 0 and not 1 - LIKE < found.like < LIKE

    @property
    def dimension(self) -> int:
        return int(self.observed.vectors.shape[1])

    @property
    def out_of_time(self) -> bool:
        over = time.monotonic() > self.deadline
        self.hurried |= over
        return over

    def predicted(self, hypothesis: Hypothesis, rows: Sequence[int] | None = None) -> Numbers:
        """The directions that a hypothesis predicts for these texts, or all; raises ``Unanswered``."""
        texts = self.observed.texts if rows is None else [self.observed.texts[row] for row in rows]
        made = vectors_of(hypothesis, texts, self.reader, self.halves)
        if made.shape[1] < self.dimension:
            raise Unanswered(f"the model makes vectors of {made.shape[1]} numbers")
        return directions(made, self.dimension, centred=self.centred)

    def share(self, hypothesis: Hypothesis, rows: Sequence[int] | None = None) -> float:
        """Share that the hypothesis leaves unexplained: 0 nothing, 2 everything; infinite where it cannot be."""
        try:
            predicted = self.predicted(hypothesis, rows)
        except Unanswered:
            return float("inf")
        found = self.found if rows is None else self.found[list(rows)]
        return float(apart(found, predicted).mean()) / self.unit

    def cosine(self, hypothesis: Hypothesis) -> float:
        """The mean cosine with what a hypothesis predicts."""
        return 1 - self.share(hypothesis) * self.unit / 2

    def usable(self, hypothesis: Hypothesis) -> bool:
        """Whether the model can be run so, and makes vectors of as many numbers."""
        return self.share(hypothesis) < float("inf")

    def compared(self, simpler: Hypothesis, other: Hypothesis, rows: Sequence[int]) -> Comparison:
        """One hypothesis against another on these texts."""
        try:
            return compare(self.found[list(rows)], self.predicted(simpler, rows), self.predicted(other, rows))
        except Unanswered:
            return compare(self.found[:0], self.found[:0], self.found[:0])

    def best(self) -> Hypothesis:
        """The hypothesis that explains the observed vectors best, simpler ones first."""
        if self.share(self.expected) <= EXACT:
            return self.expected
        best = self._refined(self._cut_elsewhere(self._on_core()))
        return best if best.length != self.expected.length else self._cut_elsewhere(best)

    def _on_core(self) -> Hypothesis:
        """The best on short texts, in rings of more and more, and more costly, changes."""
        rows = self._core(CORE)
        # What is left of the time is for what only some texts show.
        halfway = (time.monotonic() + self.deadline) / 2
        shares = {self.expected: self.share(self.expected, rows)}
        rings = (
            (rows, self._poolings(self.expected)),
            (rows, self._one_change(rows)),
            (rows[:FEW], self._paddings()),
            (rows[:FEW], self._two_changes(rows[:FEW])),
        )
        for few, ring in rings:
            for hypothesis in ring:
                if time.monotonic() > halfway:
                    self.hurried = True
                    break
                shares.setdefault(hypothesis, self.share(hypothesis, few))
                if shares[hypothesis] <= SURE:
                    break
            least = min(shares.values())
            if least <= GOOD or (least <= NOISE and few != rows):
                break
        best = min(shares, key=lambda each: shares[each])
        convinced = self.compared(self.expected, best, rows).convinces or (
            shares[self.expected] == float("inf") and shares[best] <= NOISE
        )
        return best if convinced else self.expected

    def _core(self, count: int) -> list[int]:
        """Short texts of different lengths, those first that every way of reading reads alike."""
        texts = self.observed.texts
        plain = np.ones(len(texts), bool)
        for reading in MISREADINGS:
            plain[list(self.reader.affected(texts, reading))] = False
        order = sorted(range(len(texts)), key=lambda row: (self.counts[row] > VERY_SHORT, not plain[row]))
        return order[:count]

    def _poolings(self, hypothesis: Hypothesis) -> Iterator[Hypothesis]:
        """The hypothesis with every pooling, with and without the head."""
        names = [MODEL]
        if self.halves.has_tokens:
            # Two means that differ in length alone are one here.
            own = ("mean", "mean-sqrt-len") if self.halves.mode.startswith("mean") else (self.halves.mode,)
            names += [name for name in POOLINGS if name not in (*own, "mean-sqrt-len")]
            names += [INNER_MEAN] + [POOLER] * (self.halves.pooler is not None)
        heads = (True, False) if self.halves.has_head else (True,)
        for head, name in product(heads, names):
            yield replace(hypothesis, pooling=name, head=head)

    def _readings(self, hypothesis: Hypothesis, rows: Sequence[int]) -> Iterator[Hypothesis]:
        """The hypothesis with every other prompt, other special tokens, or another way of reading."""
        yield from (replace(hypothesis, prefix=each) for each in self.prompts)
        yield from (replace(hypothesis, specials=each) for each in SPECIALS)
        texts = tuple(self.observed.texts[row] for row in rows)
        for name in MISREADINGS:
            if name == OWN or self.reader.affected(texts, name):
                yield replace(hypothesis, reading=name)

    def _one_change(self, rows: Sequence[int]) -> Iterator[Hypothesis]:
        for changed in self._readings(self.expected, rows):
            yield from self._poolings(changed)

    def _paddings(self) -> Iterator[Hypothesis]:
        for to, attended in product(sorted({self.expected.length, 128, 512}), (False, True)):
            yield from self._poolings(replace(self.expected, padding=Padding(to, attended)))

    def _two_changes(self, rows: Sequence[int]) -> Iterator[Hypothesis]:
        for prompt, special in product(self.prompts, SPECIALS):
            yield from self._poolings(replace(self.expected, prefix=prompt, specials=special))
        for changed in self._readings(self.expected, rows):
            yield from (each for other in self._readings(changed, rows) for each in self._poolings(other))

    def _refined(self, best: Hypothesis) -> Hypothesis:
        """Further changes that convince, one after the other, on all texts."""
        short = [row for row in range(len(self.found)) if self.counts[row] <= SHORT]
        for _ in range(4):
            if self.share(best, short) <= EXACT or self.out_of_time:
                break
            gains = {}
            for other in {*self._readings(best, short), *self._poolings(best)} - {best}:
                changed = self._changed(best, other, short)
                rows = changed[:: max(1, len(changed) // SAMPLE)]
                comparison = self.compared(best, other, rows)
                if comparison.convinces:
                    gains[other] = comparison.saved / len(rows) * len(changed)
            if not gains:
                break
            best = max(gains, key=lambda each: gains[each])
        return best

    def _changed(self, best: Hypothesis, other: Hypothesis, rows: Sequence[int]) -> list[int]:
        """The texts that two hypotheses read, or may pool, differently."""
        if (best.reading, best.prefix) == (other.reading, other.prefix):
            return list(rows)
        texts = self.observed.texts
        return [
            row
            for row in rows
            if self.reader.read(best.prefix + texts[row], best.reading)
            != self.reader.read(other.prefix + texts[row], other.reading)
        ]

    def _cut_elsewhere(self, best: Hypothesis) -> Hypothesis:
        """The hypothesis with the length that long texts are cut to."""
        shares = apart(self.found, self.predicted(best)) / self.unit
        short = self.counts <= min(SHORT, best.length // 2)
        usual = float(np.median(shares[short])) if short.any() else 0.0
        off = (shares > max(10 * usual, 1e-3)) & (self.counts >= min(16, best.length // 2))
        if not off.any():
            return best
        rows = [int(row) for row in np.argsort(-self.counts) if off[row]][:4]
        tried: dict[Hypothesis, float] = {best: self.share(best, rows[:1])}

        def try_out(length: int, side: Side = "end") -> float:
            other = replace(best, length=length, side=side)
            if other not in tried:
                tried[other] = float("inf") if self.out_of_time else self.share(other, rows[:1])
            return tried[other]

        low, high = self._bracket(best, off, rows[0])
        grid = sorted({low, *(each for each in USUAL_LENGTHS if low < each < high), high})
        if high - low > SCANNED:
            near = min(range(len(grid)), key=lambda at: try_out(grid[at]))
            low, high = grid[max(near - 1, 0)], grid[min(near + 1, len(grid) - 1)]
        while high - low > SCANNED:
            left, right = low + (high - low) // 3, high - (high - low) // 3
            low, high = (low, right) if try_out(left) < try_out(right) else (left, high)
        least, near = min((try_out(length), length) for length in range(low, high + 1))
        # What is cut a little elsewhere is not always a little farther off.
        while least > EXACT and not self.out_of_time:
            around = range(max(2, near - SCANNED), near + SCANNED + 1)
            better = min((try_out(length), length) for length in around)
            if better[0] >= least:
                break
            least, near = better
        for length in {best.length, 128, 256, 512}:
            try_out(length, "beginning")
        other = min(tried, key=lambda each: tried[each])
        comparison = self.compared(best, other, rows)
        return other if comparison.convinces and comparison.gain > 0.5 else best

    def _bracket(self, best: Hypothesis, off: NDArray[np.bool_], longest: int) -> tuple[int, int]:
        """The least and the greatest length that texts may be cut to, by those that are as they should be or alike."""
        sizes = np.array([len(self.whole(best, text)) for text in self.observed.texts])
        alike = apart(self.found, self.found[longest]) / self.unit < 1e-5
        low = max(2, int(sizes[~off & (sizes <= best.length)].max(initial=2)))
        high = int(sizes[alike].min())
        if (sizes[off] <= best.length).any():
            high = min(high, int(sizes[off].min()) - 1)
        else:
            low = max(low, best.length)
        later = sizes[off & ~alike & (sizes < high)]
        if high > best.length and len(later):
            low = max(low, int(later.max()))
        return min(low, high), high

    def longest(self, hypothesis: Hypothesis) -> int:
        """Tokens of the longest text, uncut."""
        return max(len(self.whole(hypothesis, text)) for text in self.observed.texts)

    def whole(self, hypothesis: Hypothesis, text: str) -> tuple[int, ...]:
        read = cut(
            self.reader.read(hypothesis.prefix + text, hypothesis.reading),
            replace(hypothesis, length=1 << 30),
        )
        return (*read.first, *read.ids, *read.last)
