"""The linker's map: what is in a library, by output section and object."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(
    r"^\s*(?P<address>[0-9a-f]+)\s+[0-9a-f]+\s+(?P<size>[0-9a-f]+)\s+\d+ (?P<depth> *)(?P<what>.*)$"
)
_INPUT = re.compile(r"^(?P<file>.*):\((?P<section>[^()]*)\)$")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of an object that was linked."""

    output: str
    """Section of the library, e.g. ``.text``."""
    file: str
    """The object, as it was named to the linker, or ``<internal>``."""
    section: str
    """Section of the object, e.g. ``.text._ZN11onnxruntime5Graph7ResolveEv``."""
    size: int
    address: int = 0
    """Where it is loaded, relative to the library."""


def read_link_map(map_file: Path) -> Iterator[Piece]:
    """Read a map that lld wrote."""
    output = ""
    with map_file.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            match = _LINE.match(line)
            if match is None:
                continue
            depth = len(match["depth"])
            if depth == 0:
                output = match["what"]
            elif depth == 8 and (found := _INPUT.match(match["what"])):
                yield Piece(
                    output=output,
                    file=found["file"],
                    section=found["section"],
                    size=int(match["size"], 16),
                    address=int(match["address"], 16),
                )
