"""The frontier of a search: a table for people, data for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from edgepack.recipes.frontier import Point, is_dominated, recommendations
from edgepack.tables import Number, State, add_row, table

SCHEMA = 2
HEAD = ("recipe", "MB", "MB zstd", "mean cosine", "lowest", "nearest", "ms", "")


def rows(points: Sequence[Point]) -> list[tuple[str, ...]]:
    """The table's cells, the smallest download first."""
    named: dict[str, str] = {}
    for choice in recommendations(points):
        if choice.point:
            before, wish = named.get(choice.point.name), choice.wish.partition(" ")[0]
            named[choice.point.name] = f"{before}, {wish}" if before else wish
    return [
        (
            point.name,
            f"{point.bytes / 1e6:.2f}",
            f"{point.compressed_bytes / 1e6:.2f}",
            f"{point.cosine:.5f}",
            f"{point.quality.min_cosine:.4f}",
            f"{point.quality.neighbour_agreement:.1%}",
            f"{point.milliseconds:.2f}",
            _remark(point, points, named.get(point.name, "")),
        )
        for point in sorted(points, key=lambda each: (each.compressed_bytes, each.name))
    ]


def frontier_table(points: Sequence[Point]) -> Table:
    """For a terminal."""
    first, *numbers, remark = HEAD
    made = table(first, *map(Number, numbers), State(remark))
    for row in rows(points):
        add_row(made, *row, style="dim" if "dominated" in row[-1] else None)
    return made


def recommendation_lines(points: Sequence[Point]) -> list[str]:
    """What the search recommends, a line a wish."""
    return [
        f"{choice.wish}: {choice.point.name if choice.point else 'none of them'}"
        for choice in recommendations(points)
    ]


def as_dict(points: Sequence[Point]) -> dict[str, Any]:
    """The frontier as plain data (schema 2)."""
    return {
        "schema": SCHEMA,
        "points": [{**asdict(point), "dominated": is_dominated(point, points)} for point in points],
        "choices": {
            choice.wish: choice.point.name if choice.point else None for choice in recommendations(points)
        },
    }


def _remark(point: Point, points: Sequence[Point], wish: str) -> str:
    remarks = [
        wish,
        "" if point.within else "below the gate",
        "dominated" if is_dominated(point, points) else "",
    ]
    return ", ".join(filter(None, remarks))
