"""MLAS's table of processor-specific kernels, cut down to what the linked operators call.

MLAS chooses its kernels when it is loaded: one constructor names all of them, for convolutions, pooling and 4-bit
matrices too, and so all of them are linked, whatever the model needs. Here the assignments to entries that nothing
in the library reads are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.errors import ToolError
from edgepack.foundry.patch import KERNEL_TABLE, OTHER_SOURCES, Patch

MLAS = "onnxruntime_mlas/"
"""What names of MLAS's units begin with."""
PLATFORM = "core/mlas/lib/platform.cpp"
PLATFORM_UNITS = f"{MLAS}*{PLATFORM}"
CONSTRUCTOR = re.compile(r"^MLAS_PLATFORM::MLAS_PLATFORM\(", re.M)
ASSIGNMENT = re.compile(
    r"^(?P<indent>[ \t]*)this->(?P<entry>\w+)(?:\[\w+\])?\s*=\s*(?P<value>&?Mlas[^;]*);", re.M
)


def dispatch_entries(source: str) -> set[str]:
    """The entries of the table that are set to kernels."""
    return {match["entry"] for match in ASSIGNMENT.finditer(source)}


def assigned_kernels(source: str) -> dict[str, set[str]]:
    """Entry of the table → names of the kernels that it is set to, processor by processor."""
    found: dict[str, set[str]] = {}
    for match in ASSIGNMENT.finditer(source):
        found.setdefault(match["entry"], set()).update(re.findall(r"^&?(\w+)", match["value"]))
    return found


def entries_read(texts: Iterable[str], entries: Iterable[str]) -> set[str]:
    """Those of the entries that sources read, e.g. ``GetMlasPlatform().GemmFloatKernel``."""
    names = "|".join(map(re.escape, sorted(entries)))
    pattern = re.compile(rf"(?:\.|->)\s*({names})\b")
    return {match for text in texts for match in pattern.findall(text)}


def inline_readers(headers: Iterable[str], entries: Iterable[str]) -> dict[str, set[str]]:
    """Function that a header defines → the entries that it reads, for whoever calls it."""
    wanted = list(entries)
    found: dict[str, set[str]] = {}
    for text in headers:
        # Upstream begins a function's line with its name; what precedes the first one is of no function.
        _, *pieces = re.split(r"^(Mlas\w+)\(", text, flags=re.M)
        for name, body in zip(pieces[::2], pieces[1::2], strict=True):
            if read := entries_read([body], wanted):
                found.setdefault(name, set()).update(read)
    return found


def trim_dispatch(source: str, keep: Iterable[str]) -> str:
    """``platform.cpp`` without the assignments to entries that are not to be kept; lines stay where they were."""
    kept = set(keep)

    def replace(match: re.Match[str]) -> str:
        if match["entry"] in kept:
            return match[0]
        # An empty statement: the assignment may be the only one of an if.
        return match["indent"] + ";" + "\n" * match[0].count("\n")

    return ASSIGNMENT.sub(replace, source)


DISPATCH_PATCH = Patch(
    name="MLAS's table of kernels",
    file=PLATFORM,
    units=PLATFORM_UNITS,
    must_find=(CONSTRUCTOR,),
    rewrite=lambda source, request: trim_dispatch(source, request.entries),
    trim=KERNEL_TABLE,
    gives="size",
)


@dataclass(frozen=True, kw_only=True)
class DispatchTable:
    """MLAS's table, by the sources around it."""

    patch: Patch = DISPATCH_PATCH

    def placed(self, place: Callable[[Patch], Patch]) -> DispatchTable:
        return replace(self, patch=place(self.patch))

    def unit(self, units: Iterable[str]) -> str:
        found = next((name for name in units if self.patch.matches(name)), None)
        if found is None:
            raise ToolError(
                f"no unit is compiled from {self.patch.file}, {self.patch.name}", hint=OTHER_SOURCES
            )
        return found

    def entries_read(
        self,
        sources: Mapping[str, Path],
        live: Collection[str],
        sections: Collection[str],
        told: Mapping[str, Collection[str]],
    ) -> frozenset[str]:
        unit = self.unit(sources)
        source = sources[unit].read_text()
        # Headers are counted as read: their inline functions may be anywhere.
        texts = [path.read_text() for path in sorted(sources[unit].parent.rglob("*.h"))]
        texts += [sources[name].read_text() for name in live if name.startswith(MLAS) and name != unit]
        read = entries_read([*texts, trim_dispatch(source, ())], dispatch_entries(source))
        unread = {
            entry
            for entry, names in told.items()
            if not any(name in section for name in names for section in sections)
        }
        return frozenset(read - unread)

    def callers(self, sources: Mapping[str, Path], units: Iterable[str]) -> dict[str, frozenset[str]]:
        table = self.unit(sources)
        kernels = assigned_kernels(sources[table].read_text())
        headers = [header.read_text() for header in sorted(sources[table].parent.glob("*.h"))]
        by_function = inline_readers(headers, kernels)
        found: dict[str, frozenset[str]] = {}
        for name in units:
            if name.startswith(MLAS) and name != table:
                source = sources[name].read_text()
                read = entries_read([source], kernels)
                for function, entries in by_function.items():
                    if function in source:
                        read |= entries
                found[name] = frozenset().union(*(kernels[entry] for entry in read))
        return found
