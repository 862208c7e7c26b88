"""Headers compiled once for many units, which then need not parse them: most of what compiling ONNX Runtime costs.

Objects stay what they are, to the byte: a release lists the units of which that has been measured, and with which header. All
others, and whatever does not take its header after all, are compiled without.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext
from edgepack.errors import DiskFullError, ToolError
from edgepack.files.store import key_of, written_beside
from edgepack.foundry.units import Unit

LEAST = 3
"""Units that a header is compiled for: for fewer it costs more than it saves."""
INSTANTIATED = "-fpch-instantiate-templates"


@dataclass(frozen=True, kw_only=True)
class Header:
    """Header that many sources begin with, and how it is compiled."""

    text: str
    command: tuple[str, ...]
    """Without source and output."""

    @property
    def name(self) -> str:
        return key_of({"text": self.text, "command": repr(self.command)})[:16]


@dataclass(frozen=True, kw_only=True)
class HeaderRule:
    """A header of a release, and which units take it."""

    includes: tuple[str, ...]
    like: str
    """The unit whose flags it is compiled with."""
    units: tuple[str, ...]
    """Patterns of names."""
    instantiated: bool = False
    """Whether what its functions use of templates is instantiated with it, and not by each unit anew: in most units that changes the order
    of functions."""

    @property
    def text(self) -> str:
        return "".join(f"#include <{name}>\n" for name in self.includes)


def header_rules(
    table: Mapping[str, Any], *, version: str, kind: str, toolchain: str
) -> tuple[HeaderRule, ...]:
    """The rules of a ``precompiled.toml``, where they were measured for this release, kind of runtime and toolchain."""
    return tuple(
        HeaderRule(
            includes=tuple(row["includes"]),
            like=row["like"],
            units=tuple(row["units"]),
            instantiated=row.get("instantiated", False),
        )
        for row in table.get("headers", ())
        if version == table["release"] and kind in table["kinds"] and toolchain in table["toolchains"]
    )


def rule_for(unit: Unit, rules: Iterable[HeaderRule], units: Mapping[str, Unit]) -> HeaderRule | None:
    """The rule whose header a unit takes: one that names it, and was compiled as the unit is."""
    for rule in rules:
        like = units.get(rule.like)
        if like and any(fnmatchcase(unit.name, name) for name in rule.units) and _alike(unit, like):
            return rule
    return None


def _alike(unit: Unit, other: Unit) -> bool:
    return unit.language == other.language and _decisive(unit.flags) == _decisive(other.flags)


def _decisive(flags: Sequence[str]) -> tuple[bool, list[str]]:
    """Those of the flags that a compiled header must share: neither where headers are looked for, nor how small code is to be."""
    levels = [flag for flag in flags if flag.startswith("-O")]
    small = bool(levels) and levels[-1] in ("-Os", "-Oz")
    return small, sorted({flag for flag in flags if not flag.startswith(("-I", "-O"))})


def header_of(rule: HeaderRule, command: Iterable[str]) -> Header:
    """The header of a rule, which ``command`` compiles."""
    flags = (INSTANTIATED,) if rule.instantiated else ()
    return Header(text=rule.text, command=(*command, *flags))


class Headers:
    """The headers that some jobs take, being compiled by ``pool`` into ``folder``; tasks that wait for one must come later."""

    def __init__(
        self, taken: Iterable[Header], pool: Executor, *, folder: Path, log_file: Path, context: BuildContext
    ) -> None:
        often = [header for header, count in Counter(taken).most_common() if count >= LEAST]
        self._made: dict[Header, Future[Path | None]] = {
            header: pool.submit(_compile, header, folder, log_file, context) for header in often
        }

    def flags(self, header: Header | None) -> list[str]:
        """Flags for a compiler, once the header is there; nothing where it is not worth it or does not compile."""
        made = self._made.get(header) if header else None
        file = made.result() if made else None
        return ["-include-pch", str(file)] if file else []

    def __contains__(self, header: Header | None) -> bool:
        return header in self._made


def _compile(header: Header, folder: Path, log_file: Path, context: BuildContext) -> Path | None:
    source, compiled = folder / f"{header.name}.hpp", folder / f"{header.name}.pch"
    if not compiled.is_file():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            source.write_text(header.text)
            with written_beside(compiled) as beside:
                command: list[str | Path] = [*header.command, "-x", "c++-header", source, "-o", beside]
                context.run(command, log_file=log_file)
        except (ToolError, DiskFullError, OSError):
            return None  # units are compiled without it, and say what is wrong if that is theirs
    return compiled
