"""What the reference pages say of the code: commands, exit codes, checks of the kit."""

import inspect
from collections.abc import Iterator

import click

from edgepack import errors
from edgepack.cli import cli
from edgepack.plugins.commands import plugin_commands
from edgepack.testing.suite import ALL_CHECKS
from tests.support.interface import sentence

WIDTH = 78
"""What click fills of 80 columns."""


def commands() -> dict[str, click.Context]:
    """Every command by its whole name, plugins' too; a group before what is in it."""
    groups = {**cli.commands, **{name: point.load() for name, point in plugin_commands().items()}}
    root = click.Context(cli, info_name="edgepack", terminal_width=WIDTH, **cli.context_settings)
    found = {"edgepack": root}
    for _, command in sorted(groups.items()):
        found.update(_and_below(command, root))
    return found


def _and_below(command: click.Command, parent: click.Context) -> Iterator[tuple[str, click.Context]]:
    if command.hidden:
        return
    context = click.Context(command, info_name=command.name, parent=parent, **command.context_settings)
    yield context.command_path, context
    if isinstance(command, click.Group):
        for _, below in sorted(command.commands.items()):
            yield from _and_below(below, context)


def command_help() -> str:
    """The help of each command, as a terminal of 80 columns shows it."""
    return "".join(
        f"\n## `{name}`\n\n```text\n{context.get_help()}\n```\n" for name, context in commands().items()
    )


def exit_codes() -> str:
    """A table of the errors, by exit code."""
    kinds = sorted(
        (kind for _, kind in inspect.getmembers(errors, inspect.isclass) if hasattr(kind, "exit_code")),
        key=lambda kind: int(kind.exit_code),
    )
    rows = [f"| {kind.exit_code} | `{kind.__name__}` | {sentence(kind)} |\n" for kind in kinds]
    return "| code | error | when |\n|---|---|---|\n" + "".join(rows)


def kit_checks() -> str:
    """Tables of the kit's checks, by what they look at."""
    tables = []
    for kind, checks in ALL_CHECKS.items():
        rows = "".join(f"| `{check.name}` | {check.rule} |\n" for check in checks)
        tables.append(f"\n### {kind}\n\n| check | rule |\n|---|---|\n{rows}")
    return "".join(tables)
