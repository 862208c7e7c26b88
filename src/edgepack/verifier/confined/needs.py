"""What a program that failed in a sandbox wanted of the host: a bundle that needs it is not self-contained."""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.program import Ended
from edgepack.verifier.confined.sandbox import View

NOT_OPENED = ": cannot open shared object file"
LIBRARY = re.compile(r"[\w+-][\w.+-]*\.so(\.[\w.]+)?$")
PATH = re.compile(r"""(?<![\w.$/-])/[^\s\0:'"`,;()\[\]<>]+""")
MISSING = re.compile(r"not found|no such file|cannot (open|find|stat|access|execute)", re.IGNORECASE)
OWN = ("/proc", "/dev", "/sys")
"""Where everything is the sandbox's own."""
SCRATCH = "/tmp"
LINES, LONGEST, MOST_PATHS, LONGEST_NAME = 200, 2000, 20, 255
"""Lines of a program's messages that are looked at, letters and paths of each, and bytes of a name: a stranger writes them, and a search may
take time by the square or the cube of what it is given."""


def what_it_needs(ended: Ended, bundle: Bundle, view: View) -> str | None:
    """A path or library that the program named as missing, or that lies on this host and not in the sandbox; else ``None``."""
    inside = bundle.directory.absolute()
    for line in ended.messages.splitlines()[-LINES:]:
        line = line[:LONGEST]
        before, not_opened, _ = line.partition(NOT_OPENED)
        if not_opened and (found := LIBRARY.search(before[-LONGEST_NAME:])):
            return found[0]
        for path in _paths(line):
            if path.is_relative_to(inside) or view.has(path) or str(path).startswith(OWN):
                continue
            if os.path.lexists(path) or (MISSING.search(line) and not str(path).startswith(SCRATCH)):
                return str(path)
    return None


def _paths(line: str) -> Iterator[Path]:
    for found in islice(PATH.finditer(line), MOST_PATHS):
        if all(len(os.fsencode(part)) <= LONGEST_NAME for part in found[0].split("/")):
            yield Path(found[0].rstrip("."))


def interpreter_of(script: Path) -> str | None:
    """Interpreter that a script's first line names, e.g. ``/bin/sh``; ``None`` for other files."""
    with script.open("rb") as stream:
        first = stream.readline(256)
    words = first[2:].split() if first.startswith(b"#!") else []
    return words[0].decode(errors="replace") if words else None
