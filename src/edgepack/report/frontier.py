"""The frontier of a search: a table for people, data for programs, a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepack.errors import MissingToolError
from edgepack.recipes.frontier import Point, choices, is_dominated

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = 1
WIDTH, HEIGHT, MARGIN = 720, 420, 60
HEAD = ("recipe", "MB", "MB zstd", "mean cosine", "min", "nearest", "ms", "")
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse}}td,th{{padding:.2rem .8rem;text-align:right}}td:first-child,th:first-child{{text-align:left}}
.dominated{{opacity:.45}}svg text{{font-size:12px;fill:currentColor}}svg line{{stroke:currentColor}}</style>
<h1>{title}</h1><p>{choices}</p>{plot}<p>Across: megabytes under zstd. Up: one less the mean cosine, logarithmic, better
above. The larger a circle, the longer a text takes; filled: nothing else is better in all three.</p>{table}</html>
"""


def rows(points: Sequence[Point]) -> list[tuple[str, ...]]:
    """The table's cells, the smallest download first."""
    named = {choice.point.name: choice.wish for choice in reversed(choices(points)) if choice.point}
    return [
        (
            point.name,
            f"{point.bytes / 1e6:.2f}",
            f"{point.wire / 1e6:.2f}",
            f"{point.cosine:.5f}",
            f"{point.quality.min_cosine:.4f}",
            f"{point.quality.neighbour_agreement:.1%}",
            f"{point.milliseconds:.2f}",
            _remark(point, points, named.get(point.name, "")),
        )
        for point in sorted(points, key=lambda each: (each.wire, each.name))
    ]


def render(points: Sequence[Point]) -> Table:
    """The table for a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in HEAD:
        table.add_column(column, justify="left" if column in ("recipe", "") else "right")
    for row in rows(points):
        table.add_row(*map(Text, row), style="dim" if "dominated" in row[-1] else None)
    return table


def choice_lines(points: Sequence[Point]) -> list[str]:
    """What the search recommends, a line a wish."""
    return [
        f"{choice.wish}: {choice.point.name if choice.point else 'none of them'}"
        for choice in choices(points)
    ]


def as_dict(points: Sequence[Point]) -> dict[str, Any]:
    """The frontier as plain data (schema 1)."""
    return {
        "schema": SCHEMA,
        "points": [{**asdict(point), "dominated": is_dominated(point, points)} for point in points],
        "choices": {choice.wish: choice.point.name if choice.point else None for choice in choices(points)},
    }


def render_html(points: Sequence[Point], title: str) -> str:
    """A page that asks nobody for anything."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in HEAD)
    body = "".join(
        f'<tr class="{"dominated" if "dominated" in row[-1] else ""}">'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row in rows(points)
    )
    return _PAGE.format(
        title=escape(title),
        choices="<br>".join(escape(line) for line in choice_lines(points)),
        plot=_svg(points),
        table=f"<table><tr>{head}</tr>{body}</table>",
    )


def write_png(points: Sequence[Point], title: str, file: Path) -> None:
    """The same picture as PNG. Raises ``MissingToolError`` where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingToolError(
            "a PNG needs matplotlib", hint="pip install 'edgepack[plot]', or take --html, which needs nothing"
        ) from error
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot(xlabel="MB under zstd", ylabel="1 - mean cosine", title=title, yscale="log")
    for point in points:
        on_frontier = not is_dominated(point, points)
        axes.scatter(
            point.wire / 1e6,
            _lost(point),
            s=20 * point.milliseconds,
            color="tab:blue",
            alpha=0.9 if on_frontier else 0.25,
        )
        axes.annotate(
            point.name, (point.wire / 1e6, _lost(point)), fontsize=7, alpha=1 if on_frontier else 0.5
        )
    axes.invert_yaxis()
    figure.savefig(file, dpi=150, format="png")


def _remark(point: Point, points: Sequence[Point], wish: str) -> str:
    remarks = [
        wish,
        "" if point.within else "below the gate",
        "dominated" if is_dominated(point, points) else "",
    ]
    return ", ".join(filter(None, remarks))


def _lost(point: Point) -> float:
    return max(1.0 - point.cosine, 1e-7)


def _svg(points: Sequence[Point]) -> str:
    import math

    wires = [point.wire / 1e6 for point in points]
    losses = [math.log10(_lost(point)) for point in points]
    left, right = min(wires, default=0.0), max(wires, default=1.0)
    best, worst = min(losses, default=-7.0), max(losses, default=0.0)
    marks = []
    for point, wire, loss in zip(points, wires, losses, strict=True):
        x = MARGIN + (WIDTH - 3 * MARGIN) * (wire - left) / ((right - left) or 1)
        y = MARGIN + (HEIGHT - 2 * MARGIN) * (loss - best) / ((worst - best) or 1)
        fill = "none" if is_dominated(point, points) else "#2a7ae2"
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3 + math.sqrt(point.milliseconds):.1f}" '
            f'fill="{fill}" stroke="#2a7ae2"/><text x="{x + 10:.1f}" y="{y - 6:.1f}">{escape(point.name)}</text>'
        )
    axes = (
        f'<line x1="{MARGIN}" y1="{HEIGHT - MARGIN / 2}" x2="{WIDTH - MARGIN}" y2="{HEIGHT - MARGIN / 2}"/>'
        f'<text x="{MARGIN}" y="{HEIGHT - 8}">{left:.1f} MB</text>'
        f'<text x="{WIDTH - 2 * MARGIN}" y="{HEIGHT - 8}">{right:.1f} MB</text>'
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="frontier">{axes}{"".join(marks)}</svg>'
    )
