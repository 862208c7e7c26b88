"""TOML and JSON read into frozen dataclasses, every key and value checked: what is wrong is said with its place. JSON of strangers."""

import dataclasses
import json
import math
import os
import re
import stat
import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Self, TypeVar

from edgepack.terminal_text import did_you_mean, foreign

T = TypeVar("T")
How = Mapping[str, Callable[[Any], object]]
"""Key with its tables (``budget.download``; lists have no number here) → what makes its value, or raises ``Malformed`` with
what is to be said after the key, or ``ValueError`` with a reason."""

KINDS: Mapping[object, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}

LARGEST = 2**53
"""Above any number in a document of ours, and exact as a float."""
LONGEST = 200
"""Letters of a key or a value in a message."""
MOST = 1 << 20
"""Bytes of a TOML file."""
MOST_PARTS = 100
"""Of a key, for which tomllib takes time by the cube."""


class Malformed(ValueError):  # noqa: N818 - what is wrong with data; callers say it in an error of their own
    """The place and what is wrong there; which file it is, and mostly a hint, callers know."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Written(float):
    """A number that remembers how it was written: 2.30 may be meant as a version, which is a string."""

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made


def parse_toml(text: str, *, parse_float: Callable[[str], float] = float) -> dict[str, Any]:
    """A whole document. Raises ``Malformed``."""
    if any(piece.count(".") >= MOST_PARTS for piece in re.split(r"[=\n,{]", text)):
        raise Malformed("not valid TOML: a key has more parts than any that is known")
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except ValueError as error:  # a number of thousands of digits is no TOMLDecodeError
        raise Malformed(f"not valid TOML: {error}") from error
    except RecursionError as error:
        raise Malformed("not valid TOML: it is nested too deeply") from error


def inline_toml(value: object) -> str:
    """A value on one line, e.g. ``{ pass = "int4" }``: strings, numbers, truth values, lists and tables of them."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {inline_toml(of)}' for key, of in value.items())} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(inline_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def load_toml(file: Traversable | Path) -> dict[str, Any]:
    """A whole file. Raises ``Malformed``, or ``OSError``."""
    try:
        if isinstance(file, Path):
            return parse_toml(read_foreign(file, most=MOST).decode())
        return parse_toml(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8: {error}") from error
    except ValueError as error:
        raise error if isinstance(error, Malformed) else Malformed(str(error)) from error


def read_table(kind: type[T], table: object, *, where: str = "", how: How | None = None) -> T:
    """A dataclass out of a table that has its fields as keys; fields that are dataclasses are tables in it.

    ``where`` is the table's own place, for messages. Raises ``Malformed`` for an unknown key, one that is missing,
    or a value of another type than the field's.
    """
    read: T = _read(kind, table, where, "", how or {})
    return read


def check_value(kind: Any, value: object, where: str = "") -> Any:
    """A value as a type has it, e.g. a tuple of what is a list in TOML. Raises ``Malformed``.

    In a function of ``How`` it has no place: that is said before whatever such a function says.
    """
    return _value(kind, value, where, where, {})


def keys_of(kind: type) -> tuple[str, ...]:
    """The keys of the table that is read into a dataclass."""
    return tuple(field.name for field in dataclasses.fields(kind))


def _read(kind: Any, table: object, where: str, path: str, how: How) -> Any:
    if not isinstance(table, Mapping):
        raise _unexpected(where, table, dict)
    known, types = keys_of(kind), typing.get_type_hints(kind)
    for key in table:
        if key not in known:
            section = f"[{where}] " if where else ""
            raise Malformed(
                f"unknown key {section}{_shown(key)}{did_you_mean(key, known)}",
                hint=f"known here: {', '.join(known)}",
            )
    for field in dataclasses.fields(kind):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in table:
            raise Malformed(f"{_below(where, field.name)} is missing")
    return kind(
        **{
            key: _value(types[key], value, _below(where, key), _below(path, key), how)
            for key, value in table.items()
        }
    )


def _value(kind: Any, value: Any, where: str, path: str, how: How) -> Any:
    """``where`` is for people, with the numbers of lists; ``path`` is the key of ``how``."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if path in how:
        return _made(how[path], value, where)
    if kind is Any:
        return value
    if NoneType in arguments:  # TOML has no null: what is not there has its default; JSON has
        if value is None:
            return None
        (kind,) = (each for each in arguments if each is not NoneType)
        return _value(kind, value, where, path, how)
    if origin is Literal:
        if value not in arguments:
            choices = [str(each) for each in arguments]
            raise Malformed(
                f"{_said(where, value)}{did_you_mean(str(value), choices)}",
                hint=f"one of: {', '.join(choices)}",
            )
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise _unexpected(where, value, list)
        return tuple(_value(arguments[0], each, f"{where}[{at}]", path, how) for at, each in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise _unexpected(where, value, dict)
        return {key: _value(arguments[1], each, _below(where, key), path, how) for key, each in value.items()}
    if dataclasses.is_dataclass(kind):
        return _read(kind, value, where, path, how)
    if kind is str and isinstance(value, Written):
        return value.text
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise _unexpected(where, value, kind)
    return value


def _made(make: Callable[[Any], object], value: object, where: str) -> object:
    try:
        return make(value)
    except Malformed as error:
        raise Malformed(f"{where} {error}", hint=error.hint) from error
    except ValueError as error:
        raise Malformed(f"{where}: {error}") from error


def _below(where: str, key: str) -> str:
    return f"{where}.{_shown(key)}" if where else _shown(key)


def _unexpected(where: str, value: object, kind: object) -> Malformed:
    return Malformed(f"{_said(where, value)}, expected {KINDS[kind]}")


def _said(where: str, value: object) -> str:
    return f"{where} is {_shown(repr(value))}".lstrip()


def _shown(text: str) -> str:
    """Words of a file, which may be a stranger's, in a message."""
    return foreign(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def read_foreign(file: Path, *, most: int) -> bytes:
    """The content of a file of at most ``most`` bytes. Raises ``OSError``, and ``ValueError`` for a pipe, a folder or a larger one."""
    # A pipe would be waited for.
    with os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            raise ValueError(f"{file} is no file of at most {most} bytes")
        return stream.read(most + 1)


def parse_foreign(text: bytes | str) -> Any:
    """The value. Raises ``ValueError`` for what is no JSON, says something twice, or has numbers that are no figures, ``RecursionError``."""
    return json.loads(
        text,
        parse_float=_number,
        parse_int=_whole,
        parse_constant=_number,
        object_pairs_hook=_each_once,
    )


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no figure")
    return number


def _whole(text: str) -> int:
    number = int(text)
    if abs(number) > LARGEST:
        raise ValueError(f"{text[:20]} is no figure")
    return number


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it says something twice")
    return found
