"""A reranker's or a classifier's last layer: scores of the encoder's vectors."""

from __future__ import annotations

import math
import sys
from array import array

from ..base.errors import BundleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..base.bundle import Bundle


class Head:
    """scores = activation(weight · vector + bias). Raises ``BundleError``."""

    def __init__(self, bundle: Bundle) -> None:
        assert bundle.head is not None
        self.labels: list[str] = bundle.value("model", "labels")
        self._activation = bundle.value("model", "activation")
        self._dimension = bundle.dimension
        count = len(self.labels) if isinstance(self.labels, list) else 0
        with open(bundle.head, "rb") as stream:
            content = stream.read()
        if not count or len(content) != 4 * count * (self._dimension + 1):
            raise damaged(bundle.head, "it is not of the size that labels and dimension ask for")
        numbers = array("f", content)
        if sys.byteorder == "big":
            numbers.byteswap()
        if not all(map(math.isfinite, numbers)):
            raise damaged(bundle.head, "it has numbers that are not finite")
        rows = [numbers[at * self._dimension : (at + 1) * self._dimension] for at in range(count)]
        self._rows = list(zip(rows, numbers[count * self._dimension :], strict=True))

    def scores(self, vector: Sequence[float]) -> list[float]:
        """One for each label."""
        made = [sum(map(float.__mul__, row, vector), bias) for row, bias in self._rows]
        if self._activation in ("sigmoid", "one-vs-rest"):
            made = [sigmoid(score) for score in made]
        if self._activation in ("sigmoid", "identity"):
            return made
        highest = max(made)
        shares = made if self._activation == "one-vs-rest" else [math.exp(score - highest) for score in made]
        total = sum(shares) or 1.0
        return [share / total for share in shares]


def damaged(path: str, why: str) -> BundleError:
    return BundleError(
        f"{path} is damaged: {why}", "copy the whole bundle folder again, or unpack its archive again"
    )


def sigmoid(score: float) -> float:
    """Without the overflow of exp for very low scores."""
    return 1 / (1 + math.exp(-score)) if score > -700 else 0.0
