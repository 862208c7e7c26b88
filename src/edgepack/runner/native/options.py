"""The options of the program, as ``options.toml`` defines them: what C++ parses, what ``--help`` prints, and what shells complete."""

import json
import textwrap
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

WIDTH, COLUMN = 100, 24
"""Of help: its lines, and where the texts about options begin."""
TYPES = {
    "FLAG": ("bool", " = false"),
    "LIST": ("std::vector<std::string>", ""),
    "WHOLE": ("size_t", " = {}"),
    "REAL": ("double", " = {}"),
}
"""Kind of a value → its type in C++, and what it begins with."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of one command; the keys are those of ``options.toml``."""

    name: str
    field: str
    group: str
    also: tuple[str, ...] = ()
    value: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()
    most: int = 0
    zero: bool = False
    range: tuple[int, int] | None = None
    default: Any = None
    seen: bool = False
    count: int = 1
    list: bool = False
    alone: bool = False
    hidden: bool = False
    feature: str = ""
    """That a program has to have for it."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also)

    @property
    def shown(self) -> str:
        """The names with the value, as help has them."""
        value = f"{{{','.join(self.choices)}}}" if self.choices else self.value
        return ", ".join(f"{name} {value}".rstrip() for name in self.names)

    @property
    def kind(self) -> str:
        """How C++ reads the value."""
        if self.list or self.count > 1:
            return "LIST"
        if self.most:
            return "WHOLE"
        if self.range:
            return "REAL"
        return "TEXT" if self.value or self.choices else "FLAG"

    def declare(self) -> str:
        """The field in C++."""
        if self.kind == "TEXT":
            return f"std::string {self.field}{f' = {json.dumps(self.default)}' if self.default else ''};"
        type, value = TYPES[self.kind]
        return f"{type} {self.field}{value.format(self.default or 0)};"


def commands() -> tuple[str, ...]:
    return tuple(_table())


@cache
def _table() -> Mapping[str, Any]:
    text = (files("edgepack.runner.native") / "options.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def options_of(command: str) -> tuple[Option, ...]:
    """All options of a command, the hidden ones too, in the order of its help."""
    return tuple(_options(command))


def _options(command: str) -> Iterator[Option]:
    for group, entries in _table()[command]["groups"].items():
        for entry in entries:
            like = entry.get("like")
            base = next((vars(each) for each in options_of("embed") if each.name == like), {}) if like else {}
            keys = {name: value for name, value in entry.items() if name != "like"}
            lists = {name: tuple(value) for name, value in keys.items() if isinstance(value, list)}
            yield Option(**{**base, **keys, **lists, "group": group})


def help_of(command: str, present: Collection[str] | None = None) -> str:
    """Text of ``--help`` of a program with these features, or with all."""
    served = present is None or "serve" in present
    said = _table()[command]
    program = "embed" if command == "embed" else f"embed {command}"
    line = said.get("served" if served else "not_served", "")
    parts = [f"usage: {program} {said['usage']}\n", said["about"].replace("{serve}", line)]
    if words := said.get("words"):
        parts.append("positional arguments:\n" + _entry(words["name"], words["help"]))
    for group in said["groups"]:
        shown = [each for each in _present(command, present) if each.group == group and not each.hidden]
        if shown:
            parts.append(f"{group}:\n" + "".join(_entry(each.shown, _told(each)) for each in shown))
    end = "".join(text for text in said["end"].splitlines(keepends=True) if served or "server" not in text)
    return "\n".join([*parts, end])


def _present(command: str, features: Collection[str] | None) -> Iterator[Option]:
    return (
        each
        for each in options_of(command)
        if not each.feature or features is None or each.feature in features
    )


def _told(option: Option) -> str:
    return option.help.replace("{default}", str(option.default))


def _entry(name: str, text: str) -> str:
    """A name, and the text about it in a column of its own."""
    lines = textwrap.wrap(text, WIDTH - COLUMN)
    head = f"  {name}"
    if len(head) > COLUMN - 2:
        return "".join(f"{line}\n" for line in (head, *(" " * COLUMN + each for each in lines)))
    first, *rest = lines
    return "".join(
        f"{line}\n" for line in (head.ljust(COLUMN) + first, *(" " * COLUMN + each for each in rest))
    )


def option_headers(present: Collection[str], *, possible: Collection[str] = ()) -> dict[str, str]:
    """C++ of the commands that are present, place → text: options' values with their defaults, the parser's table, help, and the names of
    options that features which were possible would have brought.
    """
    fields: dict[str, Option] = {}
    rows: dict[tuple[str, str], list[str]] = {}
    for command in (each for each in commands() if each in present):
        for option in _present(command, present):
            fields.setdefault(option.field, option)
            for name in option.names:
                rows.setdefault((name, option.field), []).append(command.upper())
    declared = [each.declare() for each in fields.values()]
    declared += [f"bool has_{each.field} = false;" for each in fields.values() if each.seen]
    table = [_row(name, fields[field], " | ".join(where)) for (name, field), where in rows.items()]
    missing = [each.name for each in options_of("embed") if each.feature in {*possible} - {*present}]
    left_out = json.dumps(", ".join(missing))
    helps = {each: help_of(each, present) if each in present else "" for each in commands()}
    texts = "".join(
        f"constexpr const char *HELP_{each.upper()} =\n{literal(text)};\n" for each, text in helps.items()
    )
    return {
        "program/option_values.h": _header(["struct OptionValues {", *declared, "};"]),
        "program/option_table.h": _header(
            [
                "constexpr Option OPTIONS[] = {",
                *(f"{each}," for each in table),
                "};",
                f"constexpr std::string_view LEFT_OUT = {left_out};",
                texts,
            ]
        ),
    }


def _header(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    return f'// Generated of options.toml.\n#pragma once\n#include "program/option.h"\n\nnamespace embed {{\n\n{text}\n}}\n'


def _row(name: str, option: Option, where: str) -> str:
    seen = f"&OptionValues::has_{option.field}" if option.seen else "nullptr"
    least, most = option.range or (0 if option.zero else 1, option.most)
    choices = f'"{", ".join(option.choices)}"' if option.choices else "nullptr"
    count = str(0 if option.list else option.count) + (" | Option::ALONE" if option.alone else "")
    kind = f"Option::{option.kind}"
    cells = (f'"{name}"', f"&OptionValues::{option.field}", seen, choices, most, least, kind, where, count)
    return f"{{{', '.join(map(str, cells))}}}"


def literal(text: str) -> str:
    """A string of C++; a compiler need not take one of more than 64 kB, and takes adjacent ones as one."""
    return "\n".join(json.dumps(line, ensure_ascii=True) for line in text.splitlines(keepends=True)) or '""'
