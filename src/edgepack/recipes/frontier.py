"""Size, quality and latency of what a model can be made into, and which of it is worth having."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgepack.records.report import Verification


@dataclass(frozen=True, kw_only=True)
class FrontierPoint:
    """A recipe that was tried."""

    name: str
    bytes: int
    compressed_bytes: int
    """Bytes under zstd, as a bundle's archive has it: what a download of the model weighs."""
    milliseconds: float
    """CPU time of one text of 32 tokens on one thread of this machine, by the stock library."""
    quality: Verification
    within: bool
    """Whether the target's gate lets it pass."""

    @property
    def cosine(self) -> float:
        """The mean cosine to the full-precision model."""
        return self.quality.mean_cosine


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The point that is best by one measure, among those within the gate; None when the gate lets none pass."""

    wish: str
    point: FrontierPoint | None


def is_dominated(point: FrontierPoint, others: Iterable[FrontierPoint]) -> bool:
    """Whether another point is at least as small a download, as near and as fast, and better in one of the three."""
    return any(_beats(other, point) for other in others)


def recommendations(points: Sequence[FrontierPoint]) -> tuple[Recommendation, Recommendation]:
    """The smallest and the fastest within the gate."""
    allowed = [point for point in points if point.within]
    return (
        Recommendation(
            wish="smallest within the gate",
            point=min(allowed, key=lambda point: (point.compressed_bytes, point.milliseconds), default=None),
        ),
        Recommendation(
            wish="fastest within the gate",
            point=min(allowed, key=lambda point: (point.milliseconds, point.compressed_bytes), default=None),
        ),
    )


def _beats(one: FrontierPoint, other: FrontierPoint) -> bool:
    better = (
        one.compressed_bytes <= other.compressed_bytes,
        one.cosine >= other.cosine,
        one.milliseconds <= other.milliseconds,
    )
    strictly = (
        one.compressed_bytes < other.compressed_bytes,
        one.cosine > other.cosine,
        one.milliseconds < other.milliseconds,
    )
    return all(better) and any(strictly)
