"""What a plugin returns, checked where it comes in: values of the kinds that were agreed on, files that are there, paths that stay below."""

import dataclasses
import math
import typing
from collections import abc
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union

from edgepack.errors import PluginError
from edgepack.files.folder import BadFolder, files_below, is_below
from edgepack.plugins.blame import blamed_on
from edgepack.records.bundle import RunnerArtifact

Made = TypeVar("Made")

LONGEST = 10_000
"""Characters of a text."""
SHOWN = 80
"""Characters of a value that an error shows."""


def checked(plugin: str, called: str, value: Made, kind: Any) -> Made:
    """The value, if it and all that it holds are of the kinds that its record says. Raises ``PluginError`` that names the field."""
    with blamed_on(plugin, called):
        top = next((each for each in typing.get_args(kind) or (kind,) if isinstance(value, each)), None)
        if top is None:
            raise PluginError(
                f"plugin {plugin}: {called} returned {_shown(value)}, expected {_words_of(kind)}"
            )
        if dataclasses.is_dataclass(value) and (wrong := wrong_with(value)):
            raise PluginError(
                f"plugin {plugin}: {called}: {wrong}",
                hint=f"docs/reference.md has the fields of {top.__name__}",
            )
    return value


def wrong_with(record: Any) -> str:
    """The first field of a record that holds what it may not, in words; empty: none does."""
    for place, value, kind in _wrong(record, type(record), ""):
        return f"{place} is {_shown(value)}, expected {_words_of(kind)}"
    return ""


def require_files(plugin: str, called: str, files: Iterable[Path | None]) -> None:
    """Raise ``PluginError`` for a path that names no file."""
    for file in files:
        if file is not None and not file.is_file():
            raise PluginError(f"plugin {plugin}: {called} names {file}, which is not a file")


def require_runner(plugin: str, runner: RunnerArtifact, *, working: Iterable[Path]) -> None:
    """Raise ``PluginError`` for a runner whose folder is not its own, leads out of itself, or lacks what the runner names.

    ``working``: folders that the host works in, none of which may be, or lie in, what is shipped.
    """
    called = f"plugin {plugin}: make_runner"
    folder = runner.directory
    if not folder.is_dir():
        raise PluginError(f"{called} names {folder}, which is not a folder")
    if any(each.resolve().is_relative_to(folder.resolve()) for each in working):
        raise PluginError(
            f"{called} would ship {folder}, the whole of a folder that edgepack works in",
            hint="a folder of the runner's own holds what ships, e.g. context.work_dir / 'kiosk'",
        )
    named: dict[str, Iterable[str | None]] = {
        "program": [runner.program],
        "library": [runner.library],
        "module": [runner.module],
        "parts": runner.parts,
    }
    if place := runner.placement:
        named["placement"] = [*place.model, place.tokenizer, place.runtime]
    for field, paths in named.items():
        for path in paths:
            if path is None:
                continue
            if not is_below(path):
                raise PluginError(f"{called} names {path}, which is not in its folder ({field})")
            if not (folder / path).is_file():
                raise PluginError(f"{called} names {path}, which is not a file in its folder ({field})")
    try:
        list(files_below(folder))
    except BadFolder as error:
        raise PluginError(
            f"{called}: {error}",
            hint="what is shipped is what lies in the runner's folder: copy the file into it",
        ) from error


def _wrong(value: Any, kind: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Fields that are not of the kind that they should be: the place, what is there, and the kind."""
    if not _is_of(kind, value):
        yield place, value, kind
    elif dataclasses.is_dataclass(kind):
        hints = _hints_of(value.__class__)
        for field in dataclasses.fields(value):
            below = f"{place}.{field.name}" if place else field.name
            yield from _wrong(getattr(value, field.name), hints[field.name], below)
    elif isinstance(value, tuple):
        for at, each in enumerate(value):
            if dataclasses.is_dataclass(each):
                yield from _wrong(each, type(each), f"{place}[{at}]")
    elif typing.get_origin(kind) in (Union, UnionType):
        fitting = next(each for each in typing.get_args(kind) if _is_of(each, value))
        yield from _wrong(value, fitting, place)


# Dozens of specs are of one class, at the start of each command.
_hints_of = cache(typing.get_type_hints)


def _is_of(kind: Any, value: Any) -> bool:
    """Whether a value is of a type as records are annotated with them."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return value in arguments
    if origin in (Union, UnionType):
        return any(_is_of(each, value) for each in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and (
            all(_is_of(arguments[0], each) for each in value)
            if arguments[-1] is Ellipsis
            else len(value) == len(arguments) and all(map(_is_of, arguments, value))
        )
    if origin in (Mapping, abc.Mapping):
        return isinstance(value, abc.Mapping) and all(
            _is_of(arguments[0], key) and _is_of(arguments[1], each) for key, each in value.items()
        )
    if origin in (frozenset, abc.Set):
        return isinstance(value, abc.Set) and all(_is_of(arguments[0], each) for each in value)
    if kind is float:
        return isinstance(value, (int, float)) and math.isfinite(value)
    if kind is str:
        return isinstance(value, str) and is_text(value)
    return isinstance(value, origin or kind)


def is_text(value: str) -> bool:
    """Whether it can be written into a manifest or a report, and be a word of a command."""
    if len(value) > LONGEST or "\0" in value:
        return False
    return value.encode("utf-8", "ignore").decode() == value


def _shown(value: object) -> str:
    return repr(value)[:SHOWN]


def _words_of(kind: Any) -> str:
    """A type in words: a record, or builtins as an annotation has them."""
    if typing.get_origin(kind) in (Union, UnionType):
        return " or ".join(map(_words_of, typing.get_args(kind)))
    if kind is type(None):
        return "None"
    if isinstance(kind, type) and not typing.get_origin(kind):
        return f"{'an' if kind.__name__[0] in 'aeiou' else 'a'} {kind.__name__}"
    return str(kind).replace("typing.", "").replace("collections.abc.", "").replace("pathlib.", "")
