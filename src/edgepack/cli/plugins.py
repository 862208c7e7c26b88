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
    """Create a plugin."""


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
    help="What the plugin adds: builder (with a target), pass, recipe, package, source, platform, …; an unknown AXIS lists all.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    metavar="FOLDER",
    help="Parent of the new folder edgepack-NAME. [default: the current folder]",
)
@common_options
def new(name: str, axes: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Create a working plugin NAME: code, tests, README and CI file."""
    from edgepack.template import write_plugin

    if len(axes) > 1:
        raise UsageError(
            f"--axis is given {len(axes)} times: {', '.join(axes)}; a new plugin has one axis",
            hint="to put several into one distribution, create each under the same name in another folder (--output), move "
            "modules and tests over, and return all Specs from one edgepack_specs (docs/plugins.md)",
        )
    folder = write_plugin(name, axis=axes[0], output=output)
    if as_json:
        print_json({"directory": str(folder)})
        return
    click.echo(f"created {folder}/; next:\n\npip install -e '{folder}[test]'\ncd '{folder}' && pytest")
