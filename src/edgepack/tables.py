"""Tables for the terminal, as all of edgepack's look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgepack.words import harmless

if TYPE_CHECKING:
    from rich.table import Table


class Number(str):
    """The head of a column of numbers, which are set to the right and never broken."""

    __slots__ = ()


def table(*columns: str, title: str = "") -> Table:
    """An empty table with these heads; all heads empty: without heads. Text that is too wide is broken, never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(
        box=SIMPLE_HEAD,
        title=Text(title) if title else None,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        show_header=any(columns),
    )
    for column in columns:
        if isinstance(column, Number):
            made.add_column(column, justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="fold")
    return made


def add_row(made: Table, *cells: str, style: str | None = None) -> None:
    """Append a row; its cells are text as it is, no markup."""
    from rich.text import Text

    # Here already: the escapes take room.
    made.add_row(*(Text(harmless(cell)) for cell in cells), style=style)


def megabytes(size: int) -> str:
    """10^6 bytes, with as many digits as say something."""
    return f"{size / 1e6:,.2f}" if size >= 100_000 else f"{size / 1e6:,.4f}"
