"""The commands for those who write plugins."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from edgepack.cli.help import Listed, example
from edgepack.cli.options import beginning_with, common_options
from edgepack.cli.output import print_json
from edgepack.errors import UsageError


def _complete_axis(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from edgepack import template

    return beginning_with(incomplete, template.axes())


@click.group(cls=Listed, epilog=example("edgepack plugin new kiosk"))
def plugin() -> None:
    """Write a plugin of your own."""


@plugin.command("new", epilog=example("edgepack plugin new kiosk --axis pass --output .."))
@click.argument("name")
@click.option(
    "--axis",
    "axes",
    multiple=True,
    default=["builder"],
    show_default=True,
    metavar="AXIS",
    shell_complete=_complete_axis,
    help="What it brings: a builder (a target), or a pass, recipe, package, source, platform, …; a wrong one lists all.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    metavar="FOLDER",
    help="Where the folder edgepack-NAME goes; without it, into the current folder.",
)
@common_options
def new(name: str, axes: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Write a distribution with a plugin NAME, which works at once: code, tests with the kit of checks, README, CI file."""
    from edgepack.template import write_plugin

    if len(axes) > 1:
        raise UsageError(
            f"--axis is given {len(axes)} times: {', '.join(axes)}; a plugin is written for one",
            hint="one distribution may bring all: write each under the same name into another folder (--output), move modules "
            "and tests over, and return all their Specs from one edgepack_specs (docs/plugins.md)",
        )
    folder = write_plugin(name, axis=axes[0], output=output)
    if as_json:
        print_json({"directory": str(folder)})
        return
    click.echo(f"{folder}/ holds a plugin; next:\n\npip install -e '{folder}[test]'\ncd '{folder}' && pytest")
