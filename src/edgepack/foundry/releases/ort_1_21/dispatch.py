"""MLAS's table of processor-specific kernels, cut down to what the linked operators call.

MLAS chooses its kernels when it is loaded: one constructor names all of them, for convolutions, pooling and 4-bit
matrices too, and so all of them are linked, whatever the model needs. Here the assignments to entries that nothing
in the library reads are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_CONSTRUCTOR = re.compile(r"^MLAS_PLATFORM::MLAS_PLATFORM\(", re.M)
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
    if _CONSTRUCTOR.search(source) is None:
        raise ValueError("no constructor of MLAS_PLATFORM in this source")
    kept = set(keep)

    def replace(match: re.Match[str]) -> str:
        if match["entry"] in kept:
            return match[0]
        # An empty statement: the assignment may be the only one of an if.
        return match["indent"] + ";" + "\n" * match[0].count("\n")

    return ASSIGNMENT.sub(replace, source)
