"""What the reference pages say of the code: commands, exit codes, names of the plugin interface."""

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import click

from edgepack import errors
from edgepack.cli import cli
from edgepack.plugins.commands import plugin_commands
from edgepack.testing.suite import ALL_CHECKS

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
    rows = [f"| {kind.exit_code} | `{kind.__name__}` | {_sentence(kind)} |\n" for kind in kinds]
    return "| code | error | when |\n|---|---|---|\n" + "".join(rows)


def kit_checks() -> str:
    """Tables of the kit's checks, by what they look at."""
    tables = []
    for kind, checks in ALL_CHECKS.items():
        rows = "".join(f"| `{check.name}` | {check.rule} |\n" for check in checks)
        tables.append(f"\n### {kind}\n\n| check | rule |\n|---|---|\n{rows}")
    return "".join(tables)


def api_names(module: ModuleType) -> str:
    """Tables of what plugins may import, by kind: each name with the first sentence of what it says of itself."""
    values = {name: getattr(module, name) for name in module.__all__}
    kinds: dict[str, list[str]] = {"Records and protocols": [], "Errors": [], "Functions": [], "Values": []}
    for name, value in values.items():
        kinds[_kind(value)].append(f"| `{name}` | {_said(value)} |\n")
    tables = (
        f"\n#### {kind}\n\n| name | |\n|---|---|\n" + "".join(rows) for kind, rows in kinds.items() if rows
    )
    return "".join(tables)


def _kind(value: object) -> str:
    if inspect.isfunction(value):
        return "Functions"
    if not inspect.isclass(value):
        return "Values"
    return "Errors" if issubclass(value, Exception) else "Records and protocols"


def _said(value: object) -> str:
    return _sentence(value) if inspect.isclass(value) or inspect.isfunction(value) else f"`{_shown(value)}`"


def _sentence(value: object) -> str:
    """The first sentence of a docstring, in a table's row."""
    text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[^.]..\.)\s", text)[0].replace("``", "`").replace("|", "\\|")


def api_snapshot(module: ModuleType) -> str:
    """Every name of a module with what a plugin's author relies on: signatures, and fields of records."""
    return "".join(
        f"{line}\n" for name in sorted(module.__all__) for line in _described(name, getattr(module, name))
    )


def _described(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}" if inspect.isfunction(value) else f"{name} = {_shown(value)}"
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    fields = (
        {each.name: each for each in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else {}
    )
    if fields:
        yield from (f"    {each.name}: {_type(each.type)}{_default(each)}" for each in fields.values())
    elif "__init__" in vars(value) and not getattr(value, "_is_protocol", False):
        yield f"    __init__{_signature(vars(value)['__init__'])}"
    for member, function in sorted(vars(value).items()):
        if not member.startswith("_") and member not in fields and (described := _member(member, function)):
            yield f"    {described}"


def _member(name: str, member: Any) -> str | None:
    if isinstance(member, property):
        return f"{name}: {_signature(typing.cast(Callable[..., Any], member.fget)).return_annotation}"
    if isinstance(member, classmethod | staticmethod):
        member = member.__func__
    return f"{name}{_signature(member)}" if inspect.isfunction(member) else None


class _Words(str):
    """A text that is shown without quotes."""

    __repr__ = str.__str__


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    whole = inspect.signature(function)
    parameters = [each.replace(annotation=_type(each.annotation)) for each in whole.parameters.values()]
    return whole.replace(parameters=parameters, return_annotation=_type(whole.return_annotation))


def _type(annotation: Any) -> Any:
    """An annotation in words, without the modules that its names are in."""
    if annotation is inspect.Signature.empty:
        return annotation
    said = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Words(re.sub(r"~|\b(?:\w+\.)+(?=\w)", "", said))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {_shown(field.default)}"
    return "" if field.default_factory is dataclasses.MISSING else " = ..."


def _shown(value: object) -> str:
    """A value, the same in every process: sets in order, functions by their names, other objects by their class."""
    if isinstance(value, frozenset):
        return f"frozenset({sorted(value)})"
    if inspect.isfunction(value):
        return value.__qualname__
    return type(value).__name__ if " at 0x" in repr(value) else repr(value)
