"""The frontier of a search: a table for people, data for programs, a page with a plot."""

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from rich.table import Table

from edgepack.recipes.frontier import Point, is_dominated, recommendations
from edgepack.reports.scatter import COARSE, FINE, HEIGHT, WIDTH, Mark, scatter, ticks
from edgepack.tables import Number, State, add_row, table

SCHEMA = 2
MARGIN = 105
"""Around the field, pixels."""
BLUE, ORANGE = "#2a7ae2", "#d9822b"
"""Within the target's gate, and below it."""
HEAD = ("recipe", "MB", "MB zstd", "mean cosine", "min", "nearest", "ms", "")
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse}}td,th{{padding:.2rem .8rem;text-align:right}}td:first-child,th:first-child{{text-align:left}}
.wide{{overflow-x:auto}}svg{{min-width:44rem}}.dominated{{opacity:.45}}svg text{{font-size:12px;fill:currentColor}}svg line{{stroke:currentColor;opacity:.2}}svg path{{opacity:.4}}</style>
<h1>{title}</h1><p>{choices}</p><div class="wide">{plot}</div><p>The larger a circle, the longer a text takes. Filled: no other recipe is
better in size, quality and time at once. Orange: below the gate. Both scales are logarithmic.</p><div class="wide">{table}</div></html>
"""


def rows(points: Sequence[Point]) -> list[tuple[str, ...]]:
    """The table's cells, the smallest download first."""
    named: dict[str, str] = {}
    for choice in recommendations(points):
        if choice.point:
            before = named.get(choice.point.name)
            named[choice.point.name] = f"{before}, {choice.wish}" if before else choice.wish
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


def frontier_page(points: Sequence[Point], title: str) -> str:
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
        choices="<br>".join(escape(line) for line in recommendation_lines(points)),
        plot=_svg(points),
        table=f"<table><tr>{head}</tr>{body}</table>",
    )


def _remark(point: Point, points: Sequence[Point], wish: str) -> str:
    remarks = [
        wish,
        "" if point.within else "below the gate",
        "dominated" if is_dominated(point, points) else "",
    ]
    return ", ".join(filter(None, remarks))


def _svg(points: Sequence[Point]) -> str:
    plan = scatter(points)
    lines = [
        f'<line x1="{x:.1f}" x2="{x:.1f}" y2="{HEIGHT}"/><text x="{x:.1f}" y="{HEIGHT + 18}" text-anchor="middle">'
        f"{tick / 1e6:g}</text>"
        for tick in ticks(plan.left, plan.right, FINE)
        for x in (plan.across(tick),)
    ]
    lines += [
        f'<line y1="{y:.1f}" y2="{y:.1f}" x2="{WIDTH}"/><text x="-8" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in ticks(plan.top, plan.bottom, COARSE)
        for y in (plan.down(tick),)
    ]
    marks = [
        f'<path d="M{mark.x:.1f} {mark.y:.1f}L{mark.label_x:.1f} {mark.label_y:.1f}" stroke="{_colour(mark)}"/>'
        f'<circle cx="{mark.x:.1f}" cy="{mark.y:.1f}" r="{mark.radius:.1f}" stroke="{_colour(mark)}" '
        f'fill="{"none" if mark.dominated else _colour(mark)}"><title>{escape(_in_words(mark.point))}</title></circle>'
        f'<text x="{mark.label_x:.1f}" y="{mark.label_y + 4:.1f}">{escape(mark.label)}</text>'
        for mark in plan.marks
    ]
    titles = (
        f'<text x="{WIDTH / 2}" y="{HEIGHT + 40}" text-anchor="middle">download: MB under zstd</text>'
        f'<text transform="translate({-MARGIN + 25} {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
        "error: 1 - mean cosine (up is better)</text>"
    )
    box = f"{-MARGIN} {-MARGIN / 2} {WIDTH + 2 * MARGIN} {HEIGHT + 1.5 * MARGIN}"
    return f'<svg viewBox="{box}" role="img" aria-label="frontier">{"".join([*lines, titles, *marks])}</svg>'


def _in_words(point: Point) -> str:
    """For the pointer."""
    return (
        f"{point.name}: {point.compressed_bytes / 1e6:.2f} MB under zstd, mean cosine {point.cosine:.5f}, "
        f"lowest {point.quality.min_cosine:.4f}, {point.milliseconds:.2f} ms"
    )


def _colour(mark: Mark) -> str:
    return BLUE if mark.point.within else ORANGE
