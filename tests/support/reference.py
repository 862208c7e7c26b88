"""What the reference pages say of the code: commands, exit codes, checks of the kit, completion of the native program."""

import inspect
from collections.abc import Iterator

import click

from edgepack import errors
from edgepack.cli import cli
from edgepack.plugins.commands import plugin_commands
from edgepack.runner.native import options as native
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


def bash_completion() -> str:
    """Completion of ``embed`` for bash: options, their choices, and files."""
    lines = []
    for command in native.commands():
        names = " ".join(
            name for each in native.options_of(command) if not each.hidden for name in each.names
        )
        lines.append(f'    {"*" if command == "embed" else command}) words="{names}" ;;')
    *others, last = lines[1:] + lines[:1]
    chosen = {
        name: each.choices
        for command in native.commands()
        for each in native.options_of(command)
        for name in each.names
    }
    values = [f'    {name}) words="{" ".join(choices)}" ;;' for name, choices in chosen.items() if choices]
    return "\n".join(
        [
            "_embed() {",
            '    local words here="${COMP_WORDS[COMP_CWORD]}"',
            '    case "${COMP_WORDS[1]}" in',
            *others,
            last,
            "    esac",
            '    case "${COMP_WORDS[COMP_CWORD - 1]}" in',
            *values,
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "$here"))',
            "}",
            "complete -o default -F _embed embed\n",
        ]
    )
