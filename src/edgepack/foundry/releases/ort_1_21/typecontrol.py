"""Which sources a type restriction changes: those that include upstream's type control, by the operators they name."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgepack.foundry.patch import Patch, RuntimeRequest
from edgepack.foundry.releases.ort_1_21.type_filter import filter_for

OVERRIDES = "core/providers/op_kernel_type_control_overrides.inc"
_MACROS = "core/providers/op_kernel_type_control.h"
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
_CONTROLLED = re.compile(r"\bORT_SPECIFY_OP_KERNEL_(\w+)\(([^;]*?)\)\s*;", re.S)
_OPERATOR = re.compile(r"\bk\w*Domain\s*,\s*(\w+)")
_INSERT = re.compile(
    r"(//\s*@@insertion_point_begin\(allowed_types\)@@[^\n]*\n).*?(//\s*@@insertion_point_end\(allowed_types\)@@)",
    re.S,
)
EVERY = "*"
"""Stands for all operators, where a source names them through macros of its own."""


@dataclass(frozen=True, kw_only=True)
class _Scanner:
    """Follows ``#include "…"``, remembering what it has read."""

    folders: tuple[Path, ...]
    texts: dict[Path, str] = field(default_factory=dict)
    included: dict[Path, tuple[Path, ...]] = field(default_factory=dict)
    named: dict[Path, frozenset[str]] = field(default_factory=dict)

    def reach(self, source: Path) -> set[Path]:
        """The source and all that it includes, directly or not."""
        seen: set[Path] = set()
        queue = [source]
        while queue:
            file = queue.pop()
            if file not in seen:
                seen.add(file)
                queue.extend(self.includes(file))
        return seen

    def includes(self, file: Path) -> tuple[Path, ...]:
        if file not in self.included:
            names = _INCLUDE.findall(self.text(file))
            places = ([folder / name for folder in (*self.folders, file.parent)] for name in names)
            found = (next((path for path in paths if path.is_file()), None) for paths in places)
            self.included[file] = tuple(path for path in found if path)
        return self.included[file]

    def operators(self, file: Path) -> frozenset[str]:
        """The operators whose types this very file takes from type control."""
        if file not in self.named:
            self.named[file] = _operators(self.text(file))
        return self.named[file]

    def text(self, file: Path) -> str:
        if file not in self.texts:
            self.texts[file] = file.read_text(encoding="utf-8", errors="replace")
        return self.texts[file]


def controlled_units(sources: Mapping[str, Path], onnxruntime: Path) -> dict[str, frozenset[str]]:
    """Units (name → source) that type control changes, with the operators that they name.

    ``onnxruntime`` is the folder that upstream's include paths are relative to.
    """
    scanner = _Scanner(folders=(onnxruntime, onnxruntime.parent / "include/onnxruntime"))
    found: dict[str, frozenset[str]] = {}
    for name, source in sources.items():
        files = scanner.reach(source)
        if onnxruntime / OVERRIDES in files:
            files -= {onnxruntime / OVERRIDES, onnxruntime / _MACROS}
            if operators := frozenset().union(*(scanner.operators(file) for file in files)):
                found[name] = operators
    return found


def relevant_lines(lines: Iterable[str], operators: frozenset[str]) -> list[str]:
    """Lines of a type control file that matter to a source which names these operators."""
    return [
        line
        for line in lines
        if EVERY in operators or (found := _OPERATOR.search(line)) is None or found[1] in operators
    ]


def _operators(text: str) -> frozenset[str]:
    names: set[str] = set()
    for match in _CONTROLLED.finditer(text):
        operator = _OPERATOR.search(match[2])
        line = text.rfind("\n", 0, match.start()) + 1
        in_macro = text[line:].lstrip().startswith("#") or text[:line].endswith("\\\n")
        names.add(EVERY if operator is None or in_macro else operator[1])
    return frozenset(names)


def type_control(include: str, lines: Iterable[str]) -> str:
    """The include file with these lines between upstream's marks."""
    return _INSERT.sub(lambda match: match[1] + "".join(f"{line}\n" for line in lines) + match[2], include)


def _restricted(include: str, request: RuntimeRequest) -> str:
    types = filter_for(request, request.needs)
    lines = relevant_lines(types.get_cpp_entries(), request.named) if types else []
    return type_control(include, lines) if lines else include


TYPE_CONTROL_PATCH = Patch(
    name="type control",
    file=OVERRIDES,
    readers=controlled_units,
    must_find=(_INSERT,),
    rewrite=_restricted,
    gives="size",
)
"""Each unit is compiled against only the lines that concern it: a kernel is compiled once for each restriction of its own
operators, however many models share that."""
