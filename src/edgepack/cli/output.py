"""Results, on stdout: tables for people, JSON for programs."""

import json
import re
from typing import Any

import click

from edgepack.tables import Number, add_row, table
from edgepack.words import harmless


def print_rich(renderable: Any, *, whole_lines: bool = False) -> None:
    """Print tables, or with ``whole_lines`` text whose lines are neither broken nor cut, so that names can be copied."""
    from edgepack.console import harmless_console

    harmless_console(highlight=False, soft_wrap=whole_lines).print(renderable)


def say(line: str, *, err: bool = False) -> None:
    """Print a line for people, in which names may be a stranger's."""
    click.echo(harmless(line), err=err)


def print_json(value: object) -> None:
    """Print a result for programs."""
    # JSON escapes the first 32 control characters only.
    said = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(re.sub(r"[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", said))


def print_rows(rows: list[dict[str, str]], *, as_json: bool, columns: tuple[str, ...]) -> None:
    if as_json:
        print_json(rows)
        return
    made = table(*(Number(column) if column == "MB" else column for column in columns))
    for row in rows:
        add_row(made, *(row[column] for column in columns))
    print_rich(made)
