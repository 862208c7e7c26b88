"""The command that sets up compilers which are too large to come with edgepack."""

from __future__ import annotations

import click

from edgepack.cli.options import common_options, offline_option
from edgepack.cli.output import print_json


@click.command()
@click.argument("name", type=click.Choice(["web"]))
@offline_option
@common_options
def toolchain(name: str, offline: bool, as_json: bool) -> None:
    """Fetch what compiles runtimes for browsers (web) into the cache: Emscripten and binaryen, without root.

    Says first what it fetches, and where to. A build fetches it by itself when it is not there yet.
    """
    from edgepack.console import Story
    from edgepack.foundry.web.emscripten import emscripten, installation_plan
    from edgepack.plugins.context import host_context

    with host_context(story=Story(), offline=offline) as context:
        plan = installation_plan(context)
        if not as_json:
            for line in plan.lines():
                click.echo(line, err=True)
        made = emscripten(context=context)
    if as_json:
        print_json(
            {
                "folder": str(made.root),
                "emscripten": made.version,
                "zig": made.zig_version,
                "fetched": plan.download,
                "packages": list(plan.missing),
            }
        )
    else:
        click.echo(made.root)
