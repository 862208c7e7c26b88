"""The command line. Commands import what they need when they run: ``--help`` stays light."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from edgepack import __version__
from edgepack.errors import DiskFullError, EdgepackError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])

INTERRUPTED = 130
COMPLETE_VARIABLE = "_EDGEPACK_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


def complete_target(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the built-in targets; plugins are not loaded for a press of the tab key."""
    from click.shell_completion import CompletionItem

    from edgepack.targets import built_in_targets

    names = (file.name.removesuffix(".toml") for file in built_in_targets())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def common_options(command: Command) -> Command:
    """``--json`` and ``--debug``, which every command has."""
    command = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(command)
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Log everything, show tracebacks.",
    )(command)


def _set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().meta["edgepack.debug"] = True
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, format="%(name)s: %(message)s")
        for noisy in ("httpcore", "filelock"):
            logging.getLogger(noisy).setLevel(logging.INFO)


target_option = click.option(
    "-t",
    "--target",
    "target_name",
    required=True,
    metavar="NAME",
    shell_complete=complete_target,
    help="What to build for: a name of `edgepack targets`, or a .toml file.",
)
model_option = click.option(
    "-m",
    "--model",
    metavar="MODEL",
    help="A folder, a .onnx file, hf:ORG/NAME[@REV], pypi:PACKAGE==VERSION, an https address or a name of the "
    "catalogue. [default: all-MiniLM-L6-v2]",
)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change the target: `--set model.min_cosine=0.99`; a bare key is one of the builder's options.",
)
offline_option = click.option("--offline", is_flag=True, help="Fetch nothing; use what is in the cache.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="edgepack", message="%(prog)s %(version)s")
def cli() -> None:
    """Turn a text-embedding model into the smallest thing a device can run, and prove that it is right.

    \b
    edgepack bundle --target linux-x86-min
    """


@cli.command()
@target_option
@model_option
@click.option(
    "-r", "--recipe", metavar="NAME", help="How the model is made small; short for --set model.recipe=NAME."
)
@set_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=True),
    default=Path("dist"),
    show_default=True,
    metavar="DIR",
    help="Where the bundle's folder and archive go.",
)
@click.option("-f", "--force", is_flag=True, help="Replace a bundle that is there already.")
@click.option(
    "--prices",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A price table (TOML) for the download costs.",
)
@offline_option
@common_options
def bundle(
    target_name: str,
    model: str | None,
    recipe: str | None,
    overrides: tuple[str, ...],
    output: Path,
    force: bool,
    prices: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Make a self-contained bundle, verify it and say what it weighs."""
    from edgepack import pipeline
    from edgepack.console import Story
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins

    host = load_plugins()
    if recipe:
        overrides = (*overrides, f"model.recipe={recipe}")
    target = host.target(target_name, overrides)
    with host_context(story=Story(), offline=offline) as context:
        outcome = pipeline.build(
            target, model=model, output=output, force=force, prices=prices, host=host, context=context
        )
    from edgepack.report import text

    if as_json:
        places = {"directory": str(outcome.bundle.directory), "archive": str(outcome.bundle.archive)}
        _print_json({**text.as_json(outcome.report), **places})
    else:
        _print(text.render(outcome.report))
        click.echo(
            f"\n{outcome.bundle.directory}/{outcome.bundle.manifest['runner']['program']} is ready to run"
        )


@cli.command()
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
@model_option
@offline_option
@common_options
def verify(path: Path, model: str | None, offline: bool, as_json: bool) -> None:
    """Check a bundle's files, run it, and compare its vectors with the full-precision model's.

    BUNDLE is a bundle's folder or its .tar.zst archive. The model is fetched again from where the manifest says it came
    from; --model names another place for the same files.
    """
    import dataclasses

    from edgepack import verification
    from edgepack.console import Story
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins

    with host_context(story=Story(), offline=offline) as context:
        result = verification.verify_again(path, model=model, host=load_plugins(), context=context)
    if as_json:
        _print_json(dataclasses.asdict(result))
    else:
        from edgepack.report import text

        click.echo(text.verification_line(result))


@cli.command()
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "--prices",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A price table (TOML) for the download costs.",
)
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as a web page, too."
)
@common_options
def report(path: Path, prices: Path | None, html: Path | None, as_json: bool) -> None:
    """Say what a bundle weighs, by part and by encoding, and what its downloads cost."""
    from edgepack import verification
    from edgepack.report import text

    result = verification.report_again(path, prices=prices)
    if html is not None:
        from edgepack.report.html import render_html
        from edgepack.store import written_beside

        with written_beside(html) as temporary:
            temporary.write_text(render_html(result), encoding="utf-8")
    if as_json:
        _print_json(text.as_json(result))
    else:
        _print(text.render(result))


@cli.command()
@click.argument("model", required=False)
@offline_option
@common_options
def inspect(model: str | None, offline: bool, as_json: bool) -> None:
    """Say what a model is made of, and which recipe fits it."""
    from edgepack.console import Story
    from edgepack.models.source import ingest
    from edgepack.models.usability import as_dict, inspect_model
    from edgepack.plugins.context import host_context
    from edgepack.report.inspection import render_inspection

    with host_context(story=Story(quiet=as_json), offline=offline) as context:
        source = ingest(model, context=context)
        inspection = inspect_model(source, context=context)
    if as_json:
        _print_json(as_dict(inspection))
    else:
        _print(render_inspection(inspection))


@cli.command()
@target_option
@model_option
@set_option
@common_options
def fetch(target_name: str, model: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Download everything that a build needs, so that the build itself can be --offline."""
    from edgepack.console import Story
    from edgepack.foundry.sources import fetch_sources
    from edgepack.models.source import ingest
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins

    host = load_plugins()
    host.builder_spec(host.target(target_name, overrides))
    story = Story()
    with host_context(story=story) as context:
        with story.step("model"):
            source = ingest(model, context=context)
        with story.step("runtime"):
            fetch_sources(context=context)
    if as_json:
        _print_json({"model": source.name, "cache": str(context.store.root)})
    else:
        click.echo(f"a build of {source.name} for {target_name} can now be --offline")


@cli.command("targets")
@common_options
def list_targets(as_json: bool) -> None:
    """List the targets, and whether this machine can build them."""
    from edgepack import listing
    from edgepack.plugins.host import load_plugins

    rows = listing.target_rows(load_plugins())
    _print_rows(rows, as_json=as_json, columns=("target", "state", "summary", "origin"))


@cli.command("plugins")
@common_options
def list_plugins(as_json: bool) -> None:
    """List the installed plugins, what they add, and what is wrong with the broken ones."""
    from edgepack import listing
    from edgepack.plugins.host import load_plugins

    rows = listing.plugin_rows(load_plugins())
    _print_rows(rows, as_json=as_json, columns=("plugin", "state", "distribution", "builders", "targets"))


@cli.group(invoke_without_command=True)
@common_options
@click.pass_context
def cache(context: click.Context, as_json: bool) -> None:
    """Show where the cache is and what it holds."""
    if context.invoked_subcommand is None:
        _show_cache(as_json=as_json)


@cache.command("where")
@common_options
def cache_where(as_json: bool) -> None:
    """Print the cache folder ($EDGEPACK_CACHE moves it)."""
    from edgepack.store import default_root

    if as_json:
        _print_json({"path": str(default_root())})
    else:
        click.echo(str(default_root()))


@cache.command("size")
@common_options
def cache_size(as_json: bool) -> None:
    """Print what the cache holds, by kind."""
    _show_cache(as_json=as_json)


@cache.command("clean")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@common_options
def cache_clean(kinds: tuple[str, ...], as_json: bool) -> None:
    """Empty the cache, or only the kinds named."""
    from edgepack import listing
    from edgepack.store import Store, default_root

    freed = listing.clean_cache(Store(root=default_root()), kinds)
    if as_json:
        _print_json({"freed_bytes": freed})
    else:
        click.echo(f"{freed / 1e6:.1f} MB freed")


@cli.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a completion script: `eval "$(edgepack completion bash)"`."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    click.echo(found(cli, {}, "edgepack", COMPLETE_VARIABLE).source())


def _show_cache(*, as_json: bool) -> None:
    from edgepack import listing
    from edgepack.store import Store, default_root

    root = default_root()
    sizes = listing.cache_sizes(Store(root=root))
    if as_json:
        _print_json({"path": str(root), "bytes": sum(sizes.values()), "kinds": sizes})
        return
    rows = [{"kind": kind, "MB": f"{size / 1e6:.1f}"} for kind, size in sizes.items()]
    rows.append({"kind": "all", "MB": f"{sum(sizes.values()) / 1e6:.1f}"})
    click.echo(str(root))
    _print_rows(rows, as_json=False, columns=("kind", "MB"))


def _print(renderable: Any) -> None:
    from rich.console import Console

    Console(highlight=False, soft_wrap=False).print(renderable)


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _print_rows(rows: list[dict[str, str]], *, as_json: bool, columns: tuple[str, ...]) -> None:
    if as_json:
        _print_json(rows)
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column == "MB" else "left")
    for row in rows:
        table.add_row(*(Text(row[column]) for column in columns))
    _print(table)


def main() -> NoReturn:
    """Run the command line; every failure is two lines and an exit code of its own."""
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "edgepack", COMPLETE_VARIABLE, instruction))
    signal.signal(signal.SIGTERM, _terminate)
    meta: dict[str, Any] = {}
    try:
        with cli.make_context("edgepack", sys.argv[1:]) as context:
            meta = context.meta
            cli.invoke(context)
            code = 0
    except click.exceptions.Exit as leave:
        code = leave.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        asked.show()
        code = asked.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; nothing half-made was left behind", err=True)
        code = INTERRUPTED
    except Exception as exception:
        if meta.get("edgepack.debug"):
            logging.getLogger("edgepack").exception("failed")
        error = _in_two_lines(exception)
        _show_error(error)
        code = error.exit_code
    sys.exit(code)


def _in_two_lines(exception: Exception) -> EdgepackError:
    """Any failure as an error for people; what nobody foresaw is said to be our fault."""
    if isinstance(exception, EdgepackError):
        return exception
    if isinstance(exception, click.UsageError):
        command = exception.ctx.command_path if exception.ctx else "edgepack"
        return UsageError(exception.format_message(), hint=f"`{command} --help` shows what is understood")
    if isinstance(exception, OSError) and exception.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(
            "no space left on the disk", hint="free some space, or set EDGEPACK_CACHE and TMPDIR"
        )
    return EdgepackError(
        f"unexpected {type(exception).__name__}: {exception}",
        hint="this is a fault of edgepack's or of a plugin's; --debug shows where it happened",
    )


def _show_error(error: EdgepackError) -> None:
    click.echo(f"{click.style('error:', fg='red', bold=True)} {error.message}", err=True)
    if error.hint:
        click.echo(f"{click.style('hint:', fg='cyan')} {error.hint}", err=True)


def _terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
