"""What a bundle's program is asked for, and how each of its outputs is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from edgepack.models.token_reference import TextOutputs
from edgepack.records.bundle import Bundle
from edgepack.verifier.outputs.order import Pair

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


class ScoringProgram(Protocol):
    def scores(self, bundle: Bundle, texts: Sequence[str | Pair]) -> Sequence[Sequence[float]]:
        """Scores of each text, or pair, one for each label in the order of the manifest's labels."""

    def pair_tokens(self, bundle: Bundle, pairs: Sequence[Pair]) -> Sequence[tuple[list[int], list[int]]]:
        """Ids and types of each pair."""


class TokenProgram(Protocol):
    """A program that gives sparse vectors, or vectors of tokens."""

    def outputs(self, bundle: Bundle, texts: Sequence[str], *, query: bool) -> Sequence[TextOutputs]:
        """Outputs of each text, read as a query or as a document."""


class Program(ScoringProgram, TokenProgram, Protocol):
    """A bundle's program at work; ``BundleRunner`` is one."""

    def tokens(self, bundle: Bundle, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Ids of each text, by the bundle's own tokenizer."""

    def prompted(
        self, bundle: Bundle, texts: Sequence[str], purpose: str
    ) -> Sequence[Sequence[float]] | None:
        """Vectors of texts after the bundle's own prompt for a purpose, ``query`` or ``passage``; ``None``: its program puts none."""

    def shortened(
        self, bundle: Bundle, texts: Sequence[str], dimension: int
    ) -> Sequence[Sequence[float]] | None:
        """Vectors of texts that the program has cut to so many numbers; ``None``: it takes no options."""


class Output(Protocol):
    """An output beside a text's one vector; its module compares what a program made with the full-precision model's."""

    NAME: Literal["sparse", "multi_vector"]

    def score(self, query: TextOutputs, text: TextOutputs) -> float:
        """Rank of a text for a query: the higher, the nearer."""

    def agreement(self, made: TextOutputs, exact: TextOutputs) -> tuple[float, float]:
        """Agreement of two, 1 for equal ones, and the largest difference of a number."""

    def differences(self, made: TextOutputs, exact: TextOutputs) -> tuple[Numbers, Numbers]:
        """Differences of all numbers, and the reference's numbers."""
