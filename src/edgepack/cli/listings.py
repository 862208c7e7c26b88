"""The commands that show what there is: targets, plugins, the cache; and shell completion."""

import click
from click.shell_completion import CompletionItem

from edgepack.cli.help import Listed, example
from edgepack.cli.options import beginning_with, common_options
from edgepack.cli.output import print_json, print_rich, print_rows, say

COMPLETE_VARIABLE = "_EDGEPACK_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("targets", epilog=example("edgepack targets"))
@common_options
def list_targets(as_json: bool) -> None:
    """List targets, what each is best for, and whether it can be built here.

    Archive and speed are those of the default model (static embeddings: of a static one), as measured for docs/benchmarks.md; 1.0 is the
    speed of linux-x86-min. `edgepack inspect MODEL` says which of them take a model.
    """
    from edgepack.cli import listed
    from edgepack.plugins.host import load_plugins

    rows = listed.target_rows(load_plugins())
    columns = ("target", "state", "processor", "best for", "archive MB", "speed")
    print_rows(rows, as_json=as_json, columns=columns)


@click.command("models", epilog=example("edgepack models"))
@common_options
def list_models(as_json: bool) -> None:
    """List the catalogue: models that can be given by name alone."""
    from edgepack.cli import listed

    print_rows(listed.model_rows(), as_json=as_json, columns=("model", "MB", "license", "pinned"))


@click.command("recipes", epilog=example("edgepack recipes"))
@common_options
def list_recipes(as_json: bool) -> None:
    """List recipes and the passes that each runs.

    What stands between the brackets is the recipe as a target file has it: `recipe = [ … ]`.
    """
    from edgepack.cli import listed
    from edgepack.plugins.host import load_plugins

    rows = listed.recipe_rows(load_plugins())
    if as_json:
        print_rows(rows, as_json=True, columns=())
        return
    from rich.text import Text

    from edgepack.plugins.entry_points import OURS

    for row in rows:
        whose = "" if row["origin"] == OURS else f" (plugin {row['origin']})"
        print_rich(Text(f"{row['recipe']}{whose}: {row['summary']}"))
        say("\n".join(["  [", *(f"    {line}" for line in row["toml"].splitlines()), "  ]"]))


@click.command("plugins", epilog=example("edgepack plugins"))
@common_options
def list_plugins(as_json: bool) -> None:
    """List installed plugins, what they add, and their errors.

    The exit code is 4 if a plugin is broken.
    """
    from edgepack.cli import listed
    from edgepack.errors import PluginError
    from edgepack.plugins.host import load_plugins

    own = click.get_current_context().find_root().command
    assert isinstance(own, click.Group)
    rows = listed.plugin_rows(load_plugins(), commands=own.commands, short=not as_json)
    columns = ("plugin", "state", "distribution", "api", "brings", "commands", "targets")
    print_rows(rows, as_json=as_json, columns=columns)
    if any(row["state"].startswith(listed.BROKEN) for row in rows):
        raise click.exceptions.Exit(PluginError.exit_code)


def _complete_kind(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from edgepack.files.store import Store, default_root

    return beginning_with(incomplete, Store(root=default_root()).kinds())


@click.group(cls=Listed, invoke_without_command=True, epilog=example("edgepack cache"))
@common_options
@click.pass_context
def cache(context: click.Context, as_json: bool) -> None:
    """Show the cache folder and its size by kind."""
    if context.invoked_subcommand is None:
        _show_cache(as_json=as_json)


@cache.command("where", epilog=example("edgepack cache where"))
@common_options
def cache_where(as_json: bool) -> None:
    """Print the path of the cache folder (set by $EDGEPACK_CACHE)."""
    from edgepack.files.store import default_root

    if as_json:
        print_json({"path": str(default_root())})
    else:
        click.echo(str(default_root()))


@cache.command("clean", epilog=example("edgepack cache clean models"))
@click.argument("kinds", nargs=-1, metavar="[KIND]...", shell_complete=_complete_kind)
@common_options
def cache_clean(kinds: tuple[str, ...], as_json: bool) -> None:
    """Empty the cache, or only the given kinds of entries."""
    from edgepack.cli import listed
    from edgepack.files.store import Store, default_root

    freed = listed.clean_cache(Store(root=default_root()), kinds)
    if as_json:
        print_json({"freed_bytes": freed})
    else:
        say(f"{freed / 1e6:.1f} MB freed")


@click.command(epilog=example("edgepack completion fish"))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that sets up shell completion.

    For bash: eval "$(edgepack completion bash)"
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    command = click.get_current_context().find_root().command
    click.echo(found(command, {}, "edgepack", COMPLETE_VARIABLE).source())


def _show_cache(*, as_json: bool) -> None:
    from edgepack.cli import listed
    from edgepack.files.store import Store, default_root

    root = default_root()
    sizes = listed.cache_sizes(Store(root=root))
    if as_json:
        print_json({"path": str(root), "bytes": sum(sizes.values()), "kinds": sizes})
        return
    rows = [{"kind": kind, "MB": f"{size / 1e6:.1f}"} for kind, size in sizes.items()]
    rows.append({"kind": "all", "MB": f"{sum(sizes.values()) / 1e6:.1f}"})
    click.echo(str(root))
    print_rows(rows, as_json=False, columns=("kind", "MB"))
