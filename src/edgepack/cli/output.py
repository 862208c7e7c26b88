"""Results, on stdout: tables for people, JSON for programs."""

import json
import os
import re
from typing import Any

import click

from edgepack.tables import Number, State, add_row, table
from edgepack.terminal_text import ascii_only, shown

PIPED = 100
"""Columns of tables for what is no terminal."""

_HEADS: dict[str, type[str]] = {
    "state": State,
    **dict.fromkeys(("MB", "archive MB", "speed", "mean cosine", "seconds"), Number),
}


def print_rich(renderable: Any, *, whole_lines: bool = False) -> None:
    """Print tables, or with ``whole_lines`` text whose lines are neither broken nor cut, so that names can be copied.

    To a file or a pipe tables have at most ``PIPED`` columns, or those of ``COLUMNS``, and no line ends with spaces.
    """
    from edgepack.console import harmless_console

    console = harmless_console(highlight=False, soft_wrap=whole_lines)
    if console.is_terminal:
        console.print(renderable)
        return
    if "COLUMNS" not in os.environ:
        console.width = PIPED
    with console.capture() as captured:
        console.print(renderable)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def say(line: str, *, err: bool = False) -> None:
    """Print a line for people, in which names may be a stranger's."""
    click.echo(shown(line), err=err)


def print_json(value: object) -> None:
    """Print a result for programs."""
    # JSON escapes the first 32 control characters only.
    said = json.dumps(value, indent=2, ensure_ascii=ascii_only())
    click.echo(re.sub(r"[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", said))


def print_rows(rows: list[dict[str, str]], *, as_json: bool, columns: tuple[str, ...]) -> None:
    if as_json:
        print_json(rows)
        return
    made = table(*(_HEADS.get(column, str)(column) for column in columns))
    for row in rows:
        add_row(made, *(row[column] for column in columns))
    print_rich(made)
