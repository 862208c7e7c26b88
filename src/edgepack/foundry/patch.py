"""A patch: one file that is compiled in another form for a runtime, when that is so, and how it is rewritten."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from edgepack.errors import ToolError
from edgepack.records.operators import Operators

KERNEL_TABLE, PROTOBUF_MESSAGES, ALLOCATION_PLANNER = (
    "kernel table",
    "protobuf messages",
    "allocation planner",
)
"""Trims: patches that only some toolchains link with."""
OTHER_SOURCES = "docs/upgrading-onnxruntime.md says what to mend for another release's sources; otherwise this is a bug in edgepack, please report it"
"""What to do when sources are not those that a patch is for."""


@dataclass(frozen=True, kw_only=True)
class RuntimeRequest:
    """Purpose of a runtime, as far as patches ask."""

    kind: str
    arch: str
    needs: Operators
    possible: Operators
    """With the operators that optimizers may put into a model when it is loaded."""
    isa: tuple[str, ...] = ()
    """Instruction sets that the device is known to have."""
    asked: frozenset[str] = frozenset()
    """Symbols that the library's own objects need of the C++ runtime, of protobuf and of each other, once they are known."""
    undefined: frozenset[str] = frozenset()
    """Those that nothing defines in the library's smallest form, once they are known."""
    entries: frozenset[str] = frozenset()
    """Entries of the table of processor-specific kernels that something reads, as far as is known."""
    named: frozenset[str] = frozenset()
    """For a header's patch: the operators that the unit at hand names."""


def _always(request: RuntimeRequest) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A file in another form. Patches of one file are applied one after the other."""

    name: str
    """In words, for errors."""
    file: str
    """Where it lies, as others include it: below the source tree's include folder, its target's or its library's."""
    units: str = ""
    """Pattern of the units that are compiled from it; empty for a header."""
    readers: Callable[[Mapping[str, Path], Path], Mapping[str, frozenset[str]]] | None = None
    """For a header of ONNX Runtime: (unit → source, ONNX Runtime's own folder) → the units it changes, and the operators
    that each names."""
    applies: Callable[[RuntimeRequest], bool] = _always
    rewrite: Callable[[str, RuntimeRequest], str] | None = None
    """None: as it is, with other flags."""
    must_find: tuple[re.Pattern[str], ...] = ()
    flags: tuple[str, ...] = ()
    """Added for the units."""
    root: bool = False
    """Whether the unit is linked in any case."""
    change: str = ""
    """What is changed, for the keys of what is linked with it."""
    trim: str = ""
    """Which trim it is; empty: every runtime gets it."""
    gives: Literal["", "size", "speed"] = ""
    """All that runtimes lose without it; empty: none can be made without it."""
    group: str = ""
    """Patches of one group serve one another: all of them or none."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Words that the patch knows → what the file calls them."""

    def spelled(self, text: str) -> str:
        """The file's text in the words that the patch knows."""
        return _with_words(text, {now: word for word, now in self.renamed.items()})

    def rewritten(self, text: str, request: RuntimeRequest, *, origin: str) -> str:
        """The file's new text. Raises ``ToolError`` when it is not the file that this is for; ``origin`` says whose it is."""
        text = self.spelled(text)
        for pattern in self.must_find:
            if pattern.search(text) is None:
                raise ToolError(
                    f"{self.file} is not as {origin}'s: {self.name} does not find {pattern.pattern!r}",
                    hint=OTHER_SOURCES,
                )
        changed = self.rewrite(text, request) if self.rewrite else text
        return _with_words(changed, self.renamed)

    def matches(self, unit: str) -> bool:
        """Whether a unit is compiled from the file."""
        return bool(self.units) and fnmatchcase(unit, self.units)


def _with_words(text: str, words: Mapping[str, str]) -> str:
    for before, now in words.items():
        text = re.sub(rf"\b{re.escape(before)}\b", now, text)
    return text


@dataclass(frozen=True, kw_only=True)
class Change:
    """How a unit is compiled otherwise than the plan says."""

    text: str | None = None
    """Of the generated file; ``None``: there is none."""
    file: str = ""
    """Where the generated file lies below the folder that is searched first."""
    is_source: bool = True
    """Whether the generated file stands in for the unit's own source, or is a header."""
    flags: tuple[str, ...] = ()
