"""Run a benchmark, and keep the tables that it shows as ``benchmarks/measured/NAME.json``, of which docs/benchmarks.md is made.

    python benchmarks/record.py servers -- benchmarks/servers.py MIN FAST --rounds 5
    pytest --update-golden tests/unit/test_figures.py

The names are those of its tables, in their order. What shows no table of ``edgepack.tables``, but lines as they come (peers.py), is put into its
file by hand. Beside the rows stand the command, the machine and the date; words on how it was
measured, ``notes``, are written by hand, and belong to that measurement: they go with it.
"""

import json
import runpy
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgepack.reports.build_info import this_machine

MEASURED = Path(__file__).with_name("measured")


def main() -> None:
    words = sys.argv[1:]
    if "--" not in words[1:-1]:
        sys.exit(__doc__)
    names, command = words[: words.index("--")], words[words.index("--") + 1 :]
    tables = shown_by(command)
    if len(tables) != len(names):
        sys.exit(f"it showed {len(tables)} tables, for {len(names)} names")
    for name, table in zip(names, tables, strict=True):
        write(MEASURED / f"{name}.json", table, command)


def shown_by(command: Sequence[str]) -> list[Table]:
    """Tables that a script of Python prints; it prints them all the same."""
    found: list[Table] = []
    printed = Console.print

    def kept(console: Console, *what: Any, **how: Any) -> None:
        found.extend(each for each in what if isinstance(each, Table))
        printed(console, *what, **how)

    sys.argv = list(command)
    sys.path[0] = str(Path(command[0]).parent)
    Console.print = kept  # type: ignore[assignment, method-assign]
    try:
        runpy.run_path(command[0], run_name="__main__")
    finally:
        Console.print = printed  # type: ignore[method-assign]
    return found


def write(file: Path, table: Table, command: Sequence[str]) -> None:
    """A table with where it is from, one row a line."""
    columns = [plain(column.header) for column in table.columns]
    rows = zip(*([plain(cell) for cell in column.cells] for column in table.columns), strict=True)
    head = {
        "command": shlex.join(["python", *command]),
        "machine": this_machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "columns": columns,
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    listed = ",\n".join(f"  {json.dumps(list(row), ensure_ascii=False)}" for row in rows)
    file.write_text("{\n" + ",\n".join([*lines, f' "rows": [\n{listed}\n ]']) + "\n}\n", encoding="utf-8")


def plain(cell: object) -> str:
    """Text of a cell, without what makes it bold or coloured."""
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain


if __name__ == "__main__":
    main()
