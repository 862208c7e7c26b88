"""The frontier of a search as a web page with a plot, which asks nobody for anything and has no script.

The plot is there twice: with names for wide windows, with the numbers of the table's rows for narrow ones.
"""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from edgepack.recipes.frontier import FrontierPoint, is_dominated, recommendations
from edgepack.reports.frontier import heads, rows
from edgepack.reports.page.cards import Card, render_cards
from edgepack.reports.page.markup import document
from edgepack.reports.scatter import COARSE, FINE, LETTER, Mark, Scatter, scatter, ticks

WIDE, NARROW = (860, 480), (300, 380)
"""Pixels of the field."""
LEFT, RIGHT, TOP, BOTTOM = 78, 12, 26, 52
"""Around it."""


def frontier_page(points: Sequence[FrontierPoint], title: str, *, gate: float = 0.0) -> str:
    """The plot, what is recommended, and the table; ``gate`` is the mean cosine that the target asks for."""
    page = files("edgepack.reports.page")
    ordered = sorted(points, key=lambda each: (each.compressed_bytes, each.name))
    names = [f"{each.name}, {each.milliseconds:.1f} ms" for each in ordered]
    numbers = [str(at) for at in range(1, len(ordered) + 1)]
    plots = "".join(
        f'<div class="{kind}">{_svg(scatter(ordered, labels, width=width, height=height), gate)}</div>\n'
        for kind, labels, (width, height) in (("wide", names, WIDE), ("narrow", numbers, NARROW))
    )
    inside = Template((page / "frontier.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        cards=render_cards(list(_choices(points))),
        plots=plots,
        table=_table(ordered, points),
    )
    return document(title, inside, style=(page / "frontier.css").read_text(encoding="utf-8"))


def _choices(points: Sequence[FrontierPoint]) -> list[Card]:
    return [
        Card(
            what=choice.wish.capitalize(),
            value=choice.point.name if choice.point else "none",
            limit=f"{choice.point.compressed_bytes / 1e6:.2f} MB under zstd" if choice.point else "",
            beside=f"{choice.point.milliseconds:.2f} ms, mean cosine {choice.point.cosine:.5f}"
            if choice.point
            else "",
        )
        for choice in recommendations(points)
    ]


def _table(ordered: Sequence[FrontierPoint], points: Sequence[FrontierPoint]) -> str:
    titles = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in ("", *heads(points)))
    body = "".join(
        f"<tr{_kind(point, points)}><td>{at}</td>"
        f'<th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>\n"
        for at, (point, row) in enumerate(zip(ordered, rows(points), strict=True), 1)
    )
    return f'<table class="recipes"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>'


def _kind(point: FrontierPoint, points: Sequence[FrontierPoint]) -> str:
    if not point.within:
        return ' class="below"'
    return ' class="dominated"' if is_dominated(point, points) else ""


def _svg(plan: Scatter, gate: float) -> str:
    width, height = plan.width, plan.height
    drawn = [_shade(plan, gate), *_axes(plan), _stairs(plan), *map(_mark, plan.marks)]
    return (
        f'<svg viewBox="{-LEFT} {-TOP} {width + LEFT + RIGHT} {height + TOP + BOTTOM}" role="group" '
        f'aria-label="recipes by download and mean cosine">{"".join(drawn)}</svg>'
    )


def _axes(plan: Scatter) -> list[str]:
    width, height = plan.width, plan.height
    fine = FINE if width > 2 * NARROW[0] else COARSE
    return [
        *(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y2="{height}"/><text x="{x:.1f}" y="{height + 18}" text-anchor="middle">{tick / 1e6:g}</text>'
            for tick in ticks(plan.left, plan.right, fine)
            for x in (plan.across(tick),)
        ),
        *(
            f'<line y1="{y:.1f}" y2="{y:.1f}" x2="{width}"/><text x="-8" y="{y + 4:.1f}" text-anchor="end">{_cosine(tick)}</text>'
            for tick in ticks(plan.top, plan.bottom, COARSE)
            for y in (plan.down(tick),)
        ),
        f'<text class="title" x="{width / 2}" y="{height + 42}" text-anchor="middle">download: MB under zstd (smaller is better)</text>',
        (
            f'<text class="title" transform="translate({-LEFT + 14} {height / 2}) rotate(-90)" text-anchor="middle">'
            "mean cosine to fp32 (higher is better)</text>"
        ),
    ]


def _cosine(loss: float) -> str:
    return f"{1 - loss:.6f}".rstrip("0")


def _shade(plan: Scatter, gate: float) -> str:
    """Below the gate; nothing where that is out of sight."""
    if not gate or 1 - gate >= plan.bottom:
        return ""
    y = plan.down(max(1 - gate, plan.top))
    return (
        f'<rect class="gate" y="{y:.1f}" width="{plan.width}" height="{plan.height - y:.1f}"/>'
        f'<text class="gate" x="{plan.width - 6}" y="{plan.height - 8}" text-anchor="end">below the gate: mean cosine under {gate:g}</text>'
    )


def _stairs(plan: Scatter) -> str:
    """Path along the best mean cosine for a download: of all within the gate that are as small."""
    path, best = "", 0.0
    within = (mark for mark in plan.marks if mark.point.within)
    for mark in sorted(within, key=lambda each: (each.x, each.y)):
        if not path:
            path, best = f"M{mark.x:.1f} {mark.y:.1f}", mark.y
        elif mark.y < best:
            path, best = f"{path}H{mark.x:.1f}V{mark.y:.1f}", mark.y
    return f'<path class="stairs" d="{path}H{plan.width}"/>' if path else ""


def _mark(mark: Mark) -> str:
    kind = "below" if not mark.point.within else "dominated" if mark.dominated else "best"
    said = escape(_in_words(mark.point))
    beside = mark.label_x + (0 if mark.label_x > mark.x else len(mark.label) * LETTER)
    moved = abs(mark.label_y - mark.y) > mark.radius + 4
    leader = f'<path d="M{mark.x:.1f} {mark.y:.1f}L{beside:.1f} {mark.label_y:.1f}"/>' if moved else ""
    return (
        f'<g class="mark {kind}" tabindex="0" role="img" aria-label="{said}">{leader}'
        f'<circle cx="{mark.x:.1f}" cy="{mark.y:.1f}" r="{mark.radius:.1f}"><title>{said}</title></circle>'
        f'<text x="{mark.label_x:.1f}" y="{mark.label_y + 4:.1f}">{escape(mark.label)}</text>'
        f'<text class="tip" y="{8 - TOP}" x="{8 - LEFT}">{said}</text></g>'
    )


def _in_words(point: FrontierPoint) -> str:
    return (
        f"{point.name}: {point.compressed_bytes / 1e6:.2f} MB under zstd, mean cosine {point.cosine:.5f}, "
        f"lowest {point.quality.min_cosine:.4f}, {point.milliseconds:.2f} ms"
    )
