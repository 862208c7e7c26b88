"""What is asked of a subject: texts alone, the same together, then others, then long ones."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

import numpy as np

from edgepack.doctor import probes
from edgepack.doctor.fit import Numbers, apart, directions, spread
from edgepack.doctor.halves import Vectors
from edgepack.doctor.misreadings import Reader
from edgepack.doctor.search import Observed
from edgepack.doctor.subject import OutOfTime, Refused, Subject
from edgepack.errors import SubjectError

SECONDS_ALONE = 4.0
SECONDS = 12.0
"""After which nothing more is asked: a verdict on a slow server shall not take a minute."""
FEWEST = 8
"""Texts that it takes to tell one mistake from another."""
CHANGED = 1e-3
"""Squared distance, in the spread of the subject's own vectors, from which on two vectors of a text differ."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The same texts alone and together."""

    texts: tuple[str, ...]
    """All that were in the batch; those that were also asked alone come first."""
    alone: Vectors
    """float32 [up to len(texts), dimension]."""
    together: Vectors
    """float32 [len(texts), dimension]."""
    moved: Numbers
    """How far each text's vector is from its own alone; squared, in the spread of the subject's vectors."""

    @property
    def matters(self) -> bool:
        return bool((self.moved > CHANGED).any())


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """All that a subject answered."""

    observed: Observed
    sent: int
    largest: int = 0
    """Texts of the largest request that was answered."""
    batch: Batch | None = None
    large: Batch | None = None
    """One of ``probes.LARGE`` texts that was answered otherwise than smaller ones."""
    unsteady: float = 0.0
    """How far apart two vectors of one text are that was asked for alone twice."""
    notes: tuple[str, ...] = ()


@dataclass(kw_only=True)
class _Asking:
    """The subject, and what it has said so far. Mutable: it fills."""

    subject: Subject
    known: dict[str, Vectors] = field(default_factory=dict)
    sent: int = 0
    largest: int = 0
    notes: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def is_late(self, left: int) -> bool:
        """Whether time is up; a note says so, once, where texts are left."""
        if time.monotonic() - self.started < SECONDS:
            return False
        if left and not any("it is slow" in note for note in self.notes):
            self.notes.append(f"it is slow: after {SECONDS:g} s no more texts were asked for")
        return True

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.sent += len(texts)
        made = self.subject.embed(texts)
        self.largest = max(self.largest, len(texts))
        return made

    def each_alone(self, texts: Sequence[str]) -> None:
        """Each text in a request of its own, as many as there is time for, and one at least."""
        started = time.monotonic()
        for text in texts:
            if self.sent < probes.MOST:
                self.known[text] = self.embed([text])[0]
            if time.monotonic() - started > SECONDS_ALONE:
                break

    def in_blocks(self, texts: Sequence[str]) -> None:
        size = self.subject.at_once
        for at in range(0, len(texts), size):
            if at and self.is_late(len(texts) - at):
                break
            block = texts[at : at + size]
            self.known.update(zip(block, self.embed(block), strict=True))

    def ever_longer(self, texts: Sequence[str]) -> None:
        """Each alone, up to the first that is refused."""
        for text in texts:
            if self.is_late(1):
                break
            try:
                self.known[text] = self.embed([text])[0]
            except Refused as refused:
                self.notes.append(f"of {len(text.split())} words: {refused.message}")
                break


def gather(
    subject: Subject, texts: Sequence[str], prompts: Mapping[str, str], length: int, reader: Reader
) -> Gathered:
    """Ask a subject that answers: at most ``probes.MOST`` texts, and those of ``probes.LARGE``. Raises ``SubjectError``."""
    core = probes.core_texts(texts, reader)
    others = probes.other_texts(texts, core, prompts, reader)
    longer = probes.long_texts(texts, length, reader)
    asking = _Asking(subject=subject)
    batch = large = None
    unsteady = 0.0
    try:
        asking.each_alone(core)
        first = asking.known[core[0]]
        if len(asking.known) == len(core):
            again = asking.embed(core[:1])[0]
            unsteady = float(((again - first) ** 2).sum() / max((first**2).sum(), 1e-30))
        batch = _together(asking, core, others, reader)
        if batch.matters:
            asking.each_alone([*longer[-2:], *others])
        elif subject.at_once < probes.MOST:
            asking.in_blocks(others)
        else:
            asking.in_blocks([*others, *longer])
        if subject.at_once < probes.MOST:
            large = _many(asking, [text for text in (*core, *others) if text in asking.known], batch)
            if not batch.matters:
                asking.ever_longer(longer)
    except OutOfTime as late:
        if len(asking.known) < FEWEST:
            raise SubjectError(
                f"{late.message}: {len(asking.known)} texts had been answered, at least {FEWEST} are needed",
                hint=late.hint,
            ) from late
        asking.notes.append(f"{late.message}: the verdict is on the {len(asking.known)} texts until then")
    return Gathered(
        observed=Observed(texts=tuple(asking.known), vectors=np.stack([*asking.known.values()])),
        sent=asking.sent,
        largest=asking.largest,
        batch=batch,
        large=large,
        unsteady=unsteady,
        notes=tuple(asking.notes),
    )


def _together(asking: _Asking, core: Sequence[str], others: Sequence[str], reader: Reader) -> Batch:
    """The texts that are known by now and the rest of the core, with one that makes them all be padded."""
    company = [*core, max(others, key=lambda text: len(reader.read(text).ids))]
    alone = np.stack([*asking.known.values()])
    batch = _compared(tuple(company), alone, asking.embed(company))
    if not batch.matters:
        count = len(alone)
        asking.known.update(zip(core[count:], batch.together[count:], strict=False))
    return batch


def _many(asking: _Asking, texts: Sequence[str], small: Batch) -> Batch | None:
    """Texts that are known in larger and larger requests, up to one that is refused; the first that is answered otherwise."""
    usual = 4 * float(small.moved.max()) if small.matters else 0.0
    for size in probes.LARGE:
        if asking.is_late(size):
            break
        many = tuple(islice(cycle(texts), size))
        try:
            together = asking.embed(many)
        except OutOfTime:
            raise
        except SubjectError as refused:
            asking.notes.append(f"{size} texts at once: {refused.message}")
            break
        batch = _compared(many, np.stack([asking.known[text] for text in many]), together)
        if batch.matters and batch.moved.max() > usual:
            return batch
    return None


def _compared(texts: tuple[str, ...], alone: Vectors, together: Vectors) -> Batch:
    directed = directions(together, together.shape[1])
    moved = apart(directed[: len(alone)], directions(alone, together.shape[1])) / spread(directed)
    return Batch(texts=texts, alone=alone, together=together, moved=moved)
