"""The frontier of a search: a table for people, data for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from edgepack.recipes.frontier import FrontierPoint, is_dominated, recommendations
from edgepack.tables import Number, State, add_row, table

SCHEMA = 2
HEAD = ("recipe", "MB", "MB zstd", "mean cosine", "lowest", "nearest", "ms", "")
TASKS = {"max_sts_loss": "STS-B", "max_translation_loss": "man pages"}
"""Key of a target that limits a task's loss → head of its column."""


def heads(points: Sequence[FrontierPoint]) -> tuple[str, ...]:
    """Heads of the table's columns: those of ``HEAD``, and before the last what the full gate or a head's scores add."""
    return (*HEAD[:-1], *dict.fromkeys(name for point in points for name in _more(point)), HEAD[-1])


def _more(point: FrontierPoint) -> dict[str, str]:
    """Further columns of a point."""
    found: dict[str, str] = {}
    if (scores := point.quality.scores) is not None:
        found |= {"tau": f"{scores.tau:.4f}", "best kept": f"{scores.kept:.1%}"}
    for task in point.quality.tasks:
        found[TASKS[task.limit]] = "" if task.value is None else f"{task.value:.4f}"
    if point.quality.retrieval is not None:
        found["recall@10"] = f"{point.quality.retrieval.recall:.4f}"
    return found


def rows(points: Sequence[FrontierPoint]) -> list[tuple[str, ...]]:
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
            *(_more(point).get(name, "") for name in heads(points)[len(HEAD) - 1 : -1]),
            _remark(point, points, named.get(point.name, "")),
        )
        for point in sorted(points, key=lambda each: (each.compressed_bytes, each.name))
    ]


def frontier_table(points: Sequence[FrontierPoint]) -> Table:
    first, *numbers, remark = heads(points)
    made = table(first, *map(Number, numbers), State(remark))
    for row in rows(points):
        add_row(made, *row, style="dim" if "dominated" in row[-1] else None)
    return made


def recommendation_lines(points: Sequence[FrontierPoint]) -> list[str]:
    """Recommendations of the search, a line a wish."""
    return [
        f"{choice.wish}: {choice.point.name if choice.point else 'none of them'}"
        for choice in recommendations(points)
    ]


def as_dict(points: Sequence[FrontierPoint]) -> dict[str, Any]:
    """The frontier as plain data (schema 2)."""
    return {
        "schema": SCHEMA,
        "points": [{**asdict(point), "dominated": is_dominated(point, points)} for point in points],
        "choices": {
            choice.wish: choice.point.name if choice.point else None for choice in recommendations(points)
        },
    }


def _remark(point: FrontierPoint, points: Sequence[FrontierPoint], wish: str) -> str:
    remarks = [
        wish,
        "" if point.within else "below the gate",
        "dominated" if is_dominated(point, points) else "",
    ]
    return ", ".join(filter(None, remarks))
