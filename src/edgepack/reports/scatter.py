"""Where a frontier's points and their names go in a picture: for the page's plot."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgepack.recipes.frontier import Point, is_dominated

WIDTH, HEIGHT = 900, 520
"""Of the field that points are put in, pixels."""
LETTER, LINE, GAP = 6.6, 15, 8
"""Of a name's letter, its line, and what is left free behind it, pixels."""
FINE, COARSE = (1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 5)
EXACT = 1e-5
"""A loss of the mean cosine below which nothing is to be seen; everything better is drawn here."""
ROOM = 0.08
"""Between the outermost points and the edges, as a share of the field."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point of the picture; places are pixels from the field's upper left corner."""

    point: Point
    x: float
    y: float
    radius: float
    label_x: float
    label_y: float
    """The middle of the name's line."""
    dominated: bool

    @property
    def label(self) -> str:
        """The point's name and latency."""
        return label_of(self.point)


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """All marks, and the values at the edges of the field, whose scales are logarithmic."""

    marks: tuple[Mark, ...]
    left: float
    right: float
    """Bytes under zstd."""
    top: float
    bottom: float
    """One less the mean cosine; the top is the better."""

    def across(self, size: float) -> float:
        """The place of so many bytes."""
        return WIDTH * _share(size, self.left, self.right)

    def down(self, loss: float) -> float:
        """The place of such a loss."""
        return HEIGHT * _share(loss, self.top, self.bottom)


def label_of(point: Point) -> str:
    """What stands beside a point."""
    return f"{point.name}, {point.milliseconds:.1f} ms"


def loss_of(point: Point) -> float:
    """One less the mean cosine, as it is drawn."""
    return max(1.0 - point.cosine, EXACT)


def scatter(points: Sequence[Point]) -> Scatter:
    """A plan in which no name lies upon another, as long as there is room for all."""
    left, right = _limits([point.compressed_bytes for point in points])
    top, bottom = _limits([loss_of(point) for point in points])
    field = Scatter(marks=(), left=left, right=right, top=top, bottom=bottom)
    marks: list[Mark] = []
    for point in sorted(points, key=lambda each: (loss_of(each), each.compressed_bytes)):
        x, y = field.across(point.compressed_bytes), field.down(loss_of(point))
        radius = 3 + math.sqrt(point.milliseconds)
        width = LETTER * len(label_of(point)) + GAP
        beside = x + radius + 4
        label_x = beside if beside + width < WIDTH else x - radius - 4 - width
        marks.append(
            Mark(
                point=point,
                x=x,
                y=y,
                radius=radius,
                label_x=label_x,
                label_y=_free_line(marks, label_x, y, width),
                dominated=is_dominated(point, points),
            )
        )
    return Scatter(marks=tuple(marks), left=left, right=right, top=top, bottom=bottom)


def ticks(low: float, high: float, steps: Sequence[float]) -> list[float]:
    """Round numbers from low to high: ``steps`` times powers of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]


def _free_line(marks: Sequence[Mark], x: float, y: float, width: float) -> float:
    """The nearest place at or below ``y`` where a name of that width meets no other name."""
    beside = [
        mark.label_y
        for mark in marks
        if x < mark.label_x + LETTER * len(mark.label) + GAP and mark.label_x < x + width
    ]
    while near := [other for other in beside if abs(other - y) < LINE]:
        y = max(near) + LINE
    return y


def _limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=1.0), max(values, default=1.0)
    room = max((high / low) ** ROOM, 1.1)
    return low / room, high * room


def _share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)
