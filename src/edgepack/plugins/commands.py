"""Commands that plugins add. Their names are in the metadata of what is installed: listing them imports no plugin."""

import importlib.util
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from edgepack.errors import EdgepackError, PluginError
from edgepack.plugins.blame import DEBUG, in_words
from edgepack.plugins.enabled import rules
from edgepack.plugins.entry_points import Point, entry_points

GROUP = "edgepack.commands"
"""The entry points whose names are commands: ``NAME = "MODULE:OBJECT"``, the object a click command or group."""


def plugin_commands() -> dict[str, Point]:
    """Entry points by the command's name; of two that have one name the first, edgepack's own before others'."""
    found: dict[str, Point] = {}
    why_not = rules()
    for point in entry_points(GROUP):
        if not why_not(point):
            found.setdefault(point.name, point)
    return dict(sorted(found.items()))


def summary_of(point: Point) -> str:
    """One line on a command: the first of its function's docstring, and whose it is where that is not edgepack itself.

    The docstring is read from the source, for importing a plugin may take seconds; whatever stands in the way leaves whose it is.
    """
    import ast

    said = ""
    with suppress(Exception):
        for each in ast.parse(_source_of(point.point.module)).body:
            if isinstance(each, ast.FunctionDef) and each.name == point.point.attr:
                said = (ast.get_docstring(each) or "").partition("\n")[0].strip().rstrip(".")
    if not said:
        return f"From {point.origin}"
    return said if point.is_ours else f"{said} (from {point.package})"


def _source_of(module: str) -> str:
    """The text of a module, whose package is not imported for it."""
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(module)
    file = Path(spec.origin)
    if rest:
        folder = file.parent.joinpath(*rest)
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return file.read_text(encoding="utf-8")


def refused_commands(own: Collection[str]) -> dict[str, str]:
    """Package → what is wrong with its commands: a name of them is edgepack's ``own``, or another package's."""
    taken = plugin_commands()
    wrong = {}
    for point in entry_points(GROUP):
        if point.name in own or point.value != taken.get(point.name, point).value:
            whose = "edgepack's own" if point.name in own else f"that of {taken[point.name].origin}"
            wrong[point.package] = f"its command {point.name} is {whose}"
    return wrong


def load_command(name: str) -> click.Command | None:
    """The command that a plugin adds under a name. Raises ``PluginError`` for one that cannot be had."""
    point = plugin_commands().get(name)
    if point is None:
        return None
    where = f"command {name} of {point.origin}"
    try:
        command = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(
            f"{where} cannot be loaded: {in_words(error)}",
            hint="reinstall or update that distribution",
        ) from error
    if not isinstance(command, click.Command):
        raise PluginError(f"{where} is {command!r}, expected a click command")
    if not point.is_ours:
        command.invoke = partial(_invoke, where, command.invoke)  # type: ignore[method-assign]
    return command


def _invoke(where: str, invoke: Callable[[click.Context], Any], ctx: click.Context) -> Any:
    """Run a plugin's command: what nobody foresaw is said to be its fault, and what it does to the process ends with it."""
    try:
        return invoke(ctx)
    except (EdgepackError, click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except Exception as error:
        raise PluginError(f"{where} failed: {in_words(error)}", hint=DEBUG) from error
