"""Where a frontier's points and their names go in a picture: for the page's plot."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgepack.recipes.frontier import FrontierPoint, is_dominated

LETTER, LINE = 7.0, 15
"""Of a name's letter and its line, pixels."""
FINE, COARSE = (1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 5)
EXACT = 1e-5
"""A loss of the mean cosine below which nothing is to be seen; everything better is drawn here."""
ROOM = 0.08
"""Between the outermost points and the edges, as a share of the field."""
FAR = 48
"""Halves of lines that a name may be away from its point."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A point of the picture; places are pixels from the field's upper left corner."""

    point: FrontierPoint
    label: str
    x: float
    y: float
    radius: float
    label_x: float
    """Where the name begins."""
    label_y: float
    """The middle of the name's line."""
    dominated: bool


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """All marks, the field's size in pixels, and the values at its edges, whose scales are logarithmic."""

    marks: tuple[Mark, ...]
    width: float
    height: float
    left: float
    right: float
    """Bytes under zstd."""
    top: float
    bottom: float
    """One less the mean cosine; the top is the better."""

    def across(self, size: float) -> float:
        """The place of so many bytes."""
        return self.width * _share(size, self.left, self.right)

    def down(self, loss: float) -> float:
        """The place of such a loss."""
        return self.height * _share(loss, self.top, self.bottom)


def loss_of(point: FrontierPoint) -> float:
    """One less the mean cosine, as it is drawn."""
    return max(1.0 - point.cosine, EXACT)


def scatter(
    points: Sequence[FrontierPoint], labels: Sequence[str], *, width: float, height: float
) -> Scatter:
    """A plan in which no name lies upon another or upon a point, as long as there is room for all."""
    left, right = _limits([point.compressed_bytes for point in points])
    top, bottom = _limits([loss_of(point) for point in points])
    field = Scatter(marks=(), width=width, height=height, left=left, right=right, top=top, bottom=bottom)
    spots = [
        (field.across(point.compressed_bytes), field.down(loss_of(point)), 3 + math.sqrt(point.milliseconds))
        for point in points
    ]
    taken: list[Box] = [(x - radius, y - radius, x + radius, y + radius) for x, y, radius in spots]
    marks = []
    for point, label, (x, y, radius) in zip(points, labels, spots, strict=True):
        place = _free_place(x, y, radius, LETTER * len(label), taken, width=width, height=height)
        taken.append(place)
        marks.append(
            Mark(
                point=point,
                label=label,
                x=x,
                y=y,
                radius=radius,
                label_x=place[0],
                label_y=(place[1] + place[3]) / 2,
                dominated=is_dominated(point, points),
            )
        )
    return Scatter(
        marks=tuple(marks), width=width, height=height, left=left, right=right, top=top, bottom=bottom
    )


def ticks(low: float, high: float, steps: Sequence[float]) -> list[float]:
    """Round numbers from low to high: ``steps`` times powers of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]


def _free_place(
    x: float, y: float, radius: float, length: float, taken: Sequence[Box], *, width: float, height: float
) -> Box:
    """The nearest place beside a point where a name meets nothing; where there is none, on its right."""
    places = list(_places(x, y, radius, length))
    return next(
        (
            place
            for place in places
            if place[0] >= 0
            and place[1] >= 0
            and place[2] <= width
            and place[3] <= height
            and not any(_meet(place, other) for other in taken)
        ),
        places[0],
    )


def _places(x: float, y: float, radius: float, length: float) -> Iterator[Box]:
    """Right, left, below and above, ever farther away."""
    half = LINE / 2
    for step in range(FAR):
        for shift in (step * half, -step * half)[: 2 if step else 1]:
            for start in (x + radius + 4, x - radius - 4 - length, x - length / 2):
                box = (start, y + shift - half, start + length, y + shift + half)
                if start != x - length / 2 or abs(shift) > radius + half:
                    yield box


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=1.0), max(values, default=1.0)
    room = max((high / low) ** ROOM, 1.1)
    return low / room, high * room


def _share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)
