"""What a recipe is: an ordered list of passes with parameters, under a name; and what a pass is given to work with."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from edgepack.records.model import ModelSource
from edgepack.records.target import Pass

PREPARE_SCHEMA = "7"
"""Changes whenever the same source and recipe would give other vectors than before: embedder ids have it."""

Note = Callable[[str], None]
"""How a pass says that it did something else than what its name promises."""

Patterns = tuple[str, ...]
"""Shell patterns of weights' names, e.g. ``("encoder.layer.0.*",)``; a pass leaves weights that none matches alone."""

ALL: Patterns = ("*",)


Advance = Callable[[], None]
"""One more is done."""


@contextmanager
def untold(what: str, count: int) -> Iterator[Advance]:
    """Progress that nobody sees."""
    yield lambda: None


def no_words(language: str) -> tuple[str, ...]:
    """Know no words of any language."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is made small."""

    name: str
    summary: str
    """One line for listings: what it does and what it costs."""
    passes: tuple[Pass, ...]


@dataclass(frozen=True, kw_only=True)
class Material:
    """Model and texts that a pass may need beside the graph: only passes that ask for it, by a third parameter, are given it."""

    source: ModelSource | None = None
    """Where the graph came from: its tokenizer turns texts into token ids."""
    texts: tuple[str, ...] = ()
    """The user's calibration texts; empty: those that edgepack brings."""
    isa: tuple[str, ...] = ()
    """Instruction sets that the device is known to have; empty: unknown."""
    files: dict[str, bytes] = field(default_factory=dict)
    """What a pass makes to be shipped instead of the source's, by name (``tokenizer.json``)."""
    words: Callable[[str], tuple[str, ...]] = no_words
    """Words of a language, by its ISO 639-1 code."""
    kept: dict[str, object] = field(default_factory=dict)
    """What passes measured of a model, by a digest of all that it depends on: the next recipe for the same model need not again."""
    progress: Callable[[str, int], AbstractContextManager[Advance]] = untold
    """Shows long work on stderr: ``with material.progress("round matrices", 36) as advance:``, and ``advance()`` after each."""
