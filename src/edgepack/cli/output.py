"""Results, on stdout: tables for people, JSON for programs."""

import json
from typing import Any

import click

from edgepack.tables import Number, add_row, table


def print_rich(renderable: Any, *, whole_lines: bool = False) -> None:
    """Print tables, or with ``whole_lines`` text whose lines are neither broken nor cut, so that names can be copied."""
    from rich.console import Console

    Console(highlight=False, soft_wrap=whole_lines).print(renderable)


def print_json(value: object) -> None:
    """Print a result for programs."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_rows(rows: list[dict[str, str]], *, as_json: bool, columns: tuple[str, ...]) -> None:
    if as_json:
        print_json(rows)
        return
    made = table(*(Number(column) if column == "MB" else column for column in columns))
    for row in rows:
        add_row(made, *(row[column] for column in columns))
    print_rich(made)
