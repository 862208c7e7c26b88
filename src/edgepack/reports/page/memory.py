"""What the program takes of memory: a table, and a line over the length of a text."""

from html import escape
from math import log2

from edgepack.records.report import Memory
from edgepack.reports.page.markup import table
from edgepack.reports.text import worst_case
from edgepack.tables import megabytes

WIDTH, HEIGHT = 320, 100
"""Of the drawing, which is stretched."""


def memory_section(found: Memory | None) -> str:
    """The figures and the plot; why there are none where memory was to be measured and was not; nothing without a budget."""
    if found is None:
        return ""
    if found.reason:
        return f"<p>Not measured: {escape(found.reason)}.</p>\n"
    rows = [
        ("one text", megabytes(found.one_text)),
        ("a batch of 32", megabytes(found.batch)),
        (f"at worst: {worst_case(found)}", megabytes(found.worst)),
        (f"budget, enforced by {found.enforced_by}", megabytes(found.budget)),
    ]
    caption = "Most memory at once, in MB, the files' pages included"
    return f'<div class="pair"><div>{table(("", "MB"), rows, caption=caption)}</div>{plot(found)}</div>\n'


def plot(found: Memory) -> str:
    """Peak memory of one text over its length, from 0 to the budget; lengths double from left to right."""
    if len(found.lengths) < 2:
        return ""
    first, last = found.lengths[0].tokens, found.lengths[-1].tokens
    points = [
        (log2(each.tokens / first) / log2(last / first) * WIDTH, HEIGHT * (1 - each.peak / found.budget))
        for each in found.lengths
    ]
    bars = "".join(
        f'<rect x="{min(max(x - 3, 0), WIDTH - 6):.1f}" y="{y:.1f}" width="6" height="{HEIGHT - y:.1f}">'
        f"<title>{each.tokens:,} tokens: {megabytes(each.peak)} MB</title></rect>"
        for (x, y), each in zip(points, found.lengths, strict=True)
    )
    said = (
        f"memory for one text: {megabytes(found.lengths[0].peak)} MB for {first:,} tokens, "
        f"{megabytes(found.lengths[-1].peak)} MB for {last:,}"
    )
    return (
        f'<figure class="histogram"><figcaption>Memory of one text over its length. Top: the budget of {megabytes(found.budget)} MB'
        f'</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{said}">{bars}</svg>'
        f'<div class="scale" aria-hidden="true"><span>{first:,}</span><span>tokens</span><span>{last:,}</span></div></figure>\n'
    )
