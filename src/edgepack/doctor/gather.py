"""What is asked of a subject: texts alone, the same together, then others, then long ones."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgepack.doctor import probes
from edgepack.doctor.fit import Numbers, apart, directions, spread
from edgepack.doctor.halves import Vectors
from edgepack.doctor.misreadings import Reader
from edgepack.doctor.search import Observed
from edgepack.doctor.subject import Refused, Subject

SECONDS_ALONE = 4.0
SECONDS = 12.0
"""After which nothing more is asked: a verdict on a slow server shall not take a minute."""
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
    batch: Batch | None = None
    unsteady: float = 0.0
    """How far apart two vectors of one text are that was asked for alone twice."""
    notes: tuple[str, ...] = ()


@dataclass(kw_only=True)
class _Asking:
    """The subject, and what it has said so far. Mutable: it fills."""

    subject: Subject
    known: dict[str, Vectors] = field(default_factory=dict)
    sent: int = 0
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
        return self.subject.embed(texts)

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
    """Ask a subject that answers: at most ``probes.MOST`` texts. Raises ``SubjectError``."""
    core = probes.core_texts(texts, reader)
    others = probes.other_texts(texts, core, prompts, reader)
    longer = probes.long_texts(texts, length, reader)
    asking = _Asking(subject=subject)
    asking.each_alone(core)
    alone = np.stack([asking.known[text] for text in core[: len(asking.known)]])
    again = asking.embed(core[:1])[0] if len(alone) == len(core) else alone[0]
    # One that makes the others be padded.
    company = [*core, max(others, key=lambda text: len(reader.read(text).ids))]
    together = asking.embed(company)
    directed = directions(together, together.shape[1])
    unit, count = spread(directed), len(alone)
    moved = apart(directed[:count], directions(alone, together.shape[1])) / unit
    batch = Batch(texts=tuple(company), alone=alone, together=together, moved=moved)
    if batch.matters:
        asking.each_alone([*longer[-2:], *others])
    elif subject.at_once < probes.MOST:
        asking.known.update(zip(core[count:], together[count:], strict=False))
        asking.in_blocks(others)
        asking.ever_longer(longer)
    else:
        asking.in_blocks([*core[count:], *others, *longer])
    return Gathered(
        observed=Observed(texts=tuple(asking.known), vectors=np.stack([*asking.known.values()])),
        sent=asking.sent,
        batch=batch,
        unsteady=float(((again - alone[0]) ** 2).sum() / max((alone[0] ** 2).sum(), 1e-30)),
        notes=tuple(asking.notes),
    )
