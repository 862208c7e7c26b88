"""Tables for the terminal, as all of edgepack's look."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from edgepack.terminal_text import ascii_only, shown

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

_STATES = {
    **dict.fromkeys(("✓", "ready", "made", "up"), "green"),
    **dict.fromkeys(("✗", "broken", "failed"), "red"),
    **dict.fromkeys(("missing", "deprecated", "disabled", "to", "said", "below"), "yellow"),
}
"""First word of a state → its colour: *up to date*, *to be made*, *below the gate*."""


GAP = 3
"""Signs between two columns."""


class Number(str):
    """The head of a column of numbers, which are set to the right and never broken."""

    __slots__ = ()


class State(str):
    """The head of a column of states, which have colours: ready, missing, ✓."""

    __slots__ = ()


def table(*columns: str, title: str = "") -> Table:
    """An empty table with these heads; all heads empty: without heads. Text that is too wide is broken, never cut,
    and sentences are before names."""
    from rich.box import SIMPLE_HEAD, Box
    from rich.text import Text

    rule = "    \n    \n -- \n    \n    \n    \n    \n    \n"
    made = _word_table()(
        box=Box(rule, ascii=True) if ascii_only() else SIMPLE_HEAD,
        title=Text(shown(title), no_wrap=True, overflow="ignore") if title else None,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        show_edge=False,
        show_header=any(columns),
    )
    for column in columns:
        if isinstance(column, Number):
            made.add_column(column, justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="fold")
    return made


@cache
def _word_table() -> type[Table]:
    """rich's table breaks the widest columns, whatever is in them; this one first those with room between words."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.measure import Measurement
    from rich.table import Column, Table

    def size(column: Column, console: Console, options: ConsoleOptions) -> Measurement:
        found = [Measurement.get(console, options, cell) for cell in (column.header, *column.cells)]
        return Measurement(max(each.minimum for each in found), max(each.maximum for each in found))

    def has_sentences(column: Column) -> bool:
        return any(" " in str(cell) for cell in column.cells)

    class WordTable(Table):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            sizes = [size(column, console, options) for column in self.columns]
            room = options.max_width - GAP * (len(sizes) - 1)
            whole = [each.maximum for each in sizes]
            if sum(whole) > room:
                both = list(zip(self.columns, sizes, strict=True))
                unbroken = [each.maximum if column.no_wrap else 1 for column, each in both]
                names = [
                    low if has_sentences(column) else max(low, each.minimum)
                    for low, (column, each) in zip(unbroken, both, strict=True)
                ]
                unbroken = names if sum(names) <= room else unbroken
                words = levelled(unbroken, [each.minimum for each in sizes], room)
                if sum(words) <= room:
                    for column, width in zip(self.columns, levelled(words, whole, room), strict=True):
                        column.width = width
            yield from super().__rich_console__(console, options)

    return WordTable


def levelled(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Widths between ``least`` and ``most`` that fit into the room: those that would be wider have one width, as water has one level."""

    def widths(level: int) -> list[int]:
        return [max(low, min(high, level)) for low, high in zip(least, most, strict=True)]

    level = 1
    while level < max(most, default=1) and sum(widths(level + 1)) <= room:
        level += 1
    return widths(level)


def add_row(made: Table, *cells: str, style: str | None = None) -> None:
    """Append a row; its cells are text as it is, no markup."""
    from rich.text import Text

    # Here already: escapes and spelled signs take room.
    styles = [
        _colour(cell) if isinstance(column.header, State) else ""
        for column, cell in zip(made.columns, cells, strict=False)
    ]
    lines = (
        re.sub(r"[\n\u2028\u2029]+", " ", cell) for cell in cells
    )  # or a name's second line would begin a row
    made.add_row(*map(Text, map(shown, lines), styles), style=style)


def _colour(state: str) -> str:
    return _STATES.get(state.partition(" ")[0].rstrip(":,"), "")


def blocks(*parts: RenderableType) -> Group:
    """One below the other, a blank line before and after each table."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    laid: list[RenderableType] = []
    for part in parts:
        tables = isinstance(part, (Table, Group)) or (laid and isinstance(laid[-1], (Table, Group)))
        laid += [Text(), part] if laid and tables else [part]
    return Group(*laid)


def megabytes(size: int) -> str:
    """10^6 bytes, with as many digits as say something."""
    return f"{size / 1e6:,.2f}" if size >= 100_000 else f"{size / 1e6:,.4f}"


def column_megabytes(size: int) -> str:
    """Megabytes for a column of a table, whose figures all have as many digits: to the kilobyte."""
    return f"{size / 1e6:,.3f}"
