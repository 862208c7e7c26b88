"""The command line. Commands import what they need when they run: ``--help`` stays light."""

import errno
import faulthandler
import logging
import os
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from edgepack import __version__, wrong_python
from edgepack.cli import (
    archives,
    building,
    bundles,
    doctor,
    listings,
    models,
    plugins,
    runtimes,
    searching,
    signing,
)
from edgepack.cli.help import Listed, example
from edgepack.cli.output import say
from edgepack.errors import DiskFullError, EdgepackError, MissingToolError, UsageError
from edgepack.models.ort.free_memory import limit_process
from edgepack.plugins.process import SIGNALS, end, end_now
from edgepack.terminal_text import indented, shown

if TYPE_CHECKING:
    from edgepack.plugins.entry_points import Point

INTERRUPTED = 130
INSISTENT = 3
"""Interrupts after which a plugin that catches them is not asked again."""
LONGEST = 20_000
"""Letters of an error."""
NO_READER = 141
"""What a shell calls the end of a program that wrote to a closed pipe."""


class WithPlugins(Listed):
    """edgepack's own commands, and those that plugins add: a plugin's are listed by name, and imported to be run."""

    topics = {  # noqa: RUF012
        "Bundles": ("bundle", "build", "fetch", "sign", "verify", "report"),
        "Models": ("inspect", "quantize", "convert", "search", "doctor"),
        "Runtimes": ("runtime",),
        "Listings": ("targets", "models", "recipes", "plugins"),
        "Setup": ("keys", "plugin", "cache", "completion"),
    }

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if own := super().get_command(ctx, cmd_name):
            return own
        from edgepack.plugins.commands import load_command

        return load_command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_commands(ctx, formatter)
        from edgepack.plugins.commands import summary_of

        if rows := self._of_plugins():
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(name, summary_of(point)) for name, point in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        own = super().shell_complete(ctx, incomplete)
        added = [CompletionItem(name) for name, _ in self._of_plugins() if name.startswith(incomplete)]
        return own + added

    def _of_plugins(self) -> list[tuple[str, "Point"]]:
        from edgepack.plugins.commands import plugin_commands

        return [(name, point) for name, point in plugin_commands().items() if name not in self.commands]


@click.group(
    cls=WithPlugins,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example("edgepack bundle ./my-model", "edgepack COMMAND --help"),
)
@click.version_option(__version__, "-V", "--version", prog_name="edgepack", message="%(prog)s %(version)s")
@click.option(
    "--no-plugins",
    is_flag=True,
    help="Load only edgepack's built-in plugins; same as EDGEPACK_DISABLE_PLUGINS=*.",
)
def cli(no_plugins: bool) -> None:
    """Turn a text-embedding model into a small self-contained bundle, verified against the original."""
    if no_plugins:
        os.environ["EDGEPACK_DISABLE_PLUGINS"] = "*"


for command in (
    bundles.bundle,
    building.build,
    bundles.fetch,
    bundles.inspect,
    bundles.report,
    bundles.verify,
    doctor.doctor,
    listings.cache,
    listings.completion,
    listings.list_models,
    listings.list_plugins,
    listings.list_recipes,
    listings.list_targets,
    models.convert,
    models.quantize,
    plugins.plugin,
    runtimes.runtime,
    searching.search,
    signing.keys,
    signing.sign,
):
    cli.add_command(command)
for command in (archives.export_command, archives.import_command):
    runtimes.runtime.add_command(command)


def main() -> NoReturn:
    """Run the command line; every failure is two lines and an exit code of its own."""
    if instruction := os.environ.get(listings.COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "edgepack", listings.COMPLETE_VARIABLE, instruction))
    if said := wrong_python():
        show_error(MissingToolError(said[0], hint=said[1]))
        sys.exit(MissingToolError.exit_code)
    with suppress(Exception):  # without a stderr
        faulthandler.enable()  # a crash of native code names the Python line that called it
    interrupts = 0

    def interrupt(number: int, frame: object) -> NoReturn:
        nonlocal interrupts
        interrupts += 1
        if interrupts == INSISTENT:
            say("interrupted three times; temporary files may be left behind", err=True)
            end_now(INTERRUPTED)
        raise KeyboardInterrupt

    limit_process()
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
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
    except (click.Abort, KeyboardInterrupt) as interrupted:
        code = _interrupted(interrupted)
    except BrokenPipeError:
        # Whoever read has read enough. What is left in the buffer has no reader when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = NO_READER
    except Exception as exception:
        # Native modules make another exception of an interrupt while they are imported.
        if interrupts:
            end(_interrupted(exception))
        if meta.get("edgepack.debug"):
            logging.getLogger("edgepack").exception("failed")
        error = _in_two_lines(exception)
        show_error(error)
        code = error.exit_code
    end(code)


def _interrupted(error: BaseException) -> int:
    where = next((f" {note}" for note in getattr(error, "__notes__", ())), "")
    say(f"interrupted{where}; no partial output was left behind", err=True)
    return INTERRUPTED


OF_PROGRAMS = ("embed", "serve", "similarity")
OF_BUNDLE = "a bundle's own program does that: `dist/BUNDLE/embed --help`, `dist/BUNDLE/embed serve --help`"


def _in_two_lines(exception: Exception) -> EdgepackError:
    """Any failure as an error for people; what nobody foresaw is said to be our fault."""
    if isinstance(exception, EdgepackError):
        return exception
    if isinstance(exception, click.UsageError):
        command = exception.ctx.command_path if exception.ctx else _command_of(sys.argv[1:])
        if getattr(exception, "command_name", None) in OF_PROGRAMS:
            return UsageError(exception.format_message(), hint=OF_BUNDLE)
        return UsageError(exception.format_message(), hint=f"see `{command} --help`")
    if isinstance(exception, OSError) and exception.errno in (errno.ENOSPC, errno.EDQUOT):
        if _was_printing(exception):
            return DiskFullError("no space left where the output goes", hint="let it go to another disk")
        from edgepack.files.store import default_root, disk_full

        return disk_full(Path(tempfile.gettempdir()), cache=default_root())
    if isinstance(exception, MemoryError):
        return EdgepackError(
            "this takes more memory than the machine has free",
            hint="a file may be made for that: use those that you trust, or a machine with more memory",
        )
    if isinstance(exception, FileNotFoundError) and not _is_somewhere():
        return UsageError("the current folder was removed", hint="go to one that is there: cd")
    return EdgepackError(
        f"unexpected {type(exception).__name__}: {exception}",
        hint="this is a bug in edgepack or in a plugin; --debug shows where it happened",
    )


def _was_printing(error: OSError) -> bool:
    """Whether what could not write was click or rich: files are written by neither."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals["__name__"].startswith(("click.", "rich."))


def _is_somewhere() -> bool:
    try:
        return bool(Path.cwd())
    except FileNotFoundError:
        return False


def _command_of(words: list[str]) -> str:
    """Command that the words call, for errors of which click does not say whose they are: an option without its value."""
    command: click.Command | None = cli
    path = ["edgepack"]
    for word in words:
        if not isinstance(command, click.Group):
            break
        if not word.startswith("-"):
            command = command.get_command(click.Context(command), word)
            path.append(word)
    return " ".join(path)


def _cut(text: str) -> str:
    """A message without its middle, where a stranger's word of megabytes is in it; the end says what a compiler said last."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


def show_error(error: EdgepackError) -> None:
    click.echo(
        f"{click.style('error:', fg='red', bold=True)} {shown(indented(_cut(error.message)))}", err=True
    )
    if error.hint:
        click.echo(f"{click.style('hint:', fg='cyan')} {shown(indented(_cut(error.hint)))}", err=True)
