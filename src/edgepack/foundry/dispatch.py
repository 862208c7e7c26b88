"""MLAS's table of processor-specific kernels, cut down to what the linked operators call.

MLAS chooses its kernels when it is loaded: one constructor names all of them, for convolutions, pooling and 4-bit
matrices too, and so all of them are linked, whatever the model needs. Here the assignments to entries that nothing
in the library reads are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_CONSTRUCTOR = re.compile(r"^MLAS_PLATFORM::MLAS_PLATFORM\(", re.M)
_ASSIGNMENT = re.compile(
    r"^(?P<indent>[ \t]*)this->(?P<entry>\w+)(?:\[\w+\])?\s*=\s*(?P<value>&?Mlas[^;]*);", re.M
)


def dispatch_entries(source: str) -> set[str]:
    """The entries of the table that are set to kernels."""
    return {match["entry"] for match in _ASSIGNMENT.finditer(source)}


def entries_read(texts: Iterable[str], entries: Iterable[str]) -> set[str]:
    """Those of the entries that sources read, e.g. ``GetMlasPlatform().GemmFloatKernel``."""
    names = "|".join(map(re.escape, sorted(entries)))
    pattern = re.compile(rf"(?:\.|->)\s*({names})\b")
    return {match for text in texts for match in pattern.findall(text)}


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

    return _ASSIGNMENT.sub(replace, source)
