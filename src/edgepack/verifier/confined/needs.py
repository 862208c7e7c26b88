"""What a program that failed in a sandbox wanted of the host: a bundle that needs it is not self-contained."""

import re
from collections.abc import Iterator
from pathlib import Path

from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.program import Ended
from edgepack.verifier.confined.sandbox import View

LIBRARY = re.compile(r"([\w.+-]+\.so(?:\.[\w.]+)?): cannot open shared object file")
PATH = re.compile(r"""(?<![\w.$/-])/[^\s:'"`,;()\[\]<>]+""")
MISSING = re.compile(r"not found|no such file|cannot (open|find|stat|access|execute)", re.IGNORECASE)
OWN = ("/proc", "/dev", "/sys")
"""Where everything is the sandbox's own."""
SCRATCH = "/tmp"
LINES = 200


def what_it_needs(ended: Ended, bundle: Bundle, view: View) -> str | None:
    """A path or library that the program named as missing, or that lies on this host and not in the sandbox; else ``None``."""
    inside = bundle.directory.absolute()
    for line in ended.messages.splitlines()[-LINES:]:
        if found := LIBRARY.search(line):
            return found[1]
        for path in _paths(line):
            if path.is_relative_to(inside) or view.has(path) or str(path).startswith(OWN):
                continue
            if path.exists() or (MISSING.search(line) and not str(path).startswith(SCRATCH)):
                return str(path)
    return None


def _paths(line: str) -> Iterator[Path]:
    yield from (Path(found[0].rstrip(".")) for found in PATH.finditer(line) if len(found[0]) < 4096)


def interpreter_of(script: Path) -> str | None:
    """What a script's first line names, e.g. ``/bin/sh``; ``None`` for other files."""
    with script.open("rb") as stream:
        first = stream.readline(256)
    words = first[2:].split() if first.startswith(b"#!") else []
    return words[0].decode(errors="replace") if words else None
