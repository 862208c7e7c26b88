"""One run of a bundle's program: within limits, in a sandbox where there is one, with an ordinary environment, and with an end."""

import marshal
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgepack import tools
from edgepack.context import Progress
from edgepack.files.store import default_root, disk_full, free_bytes
from edgepack.verifier.confined.limits import Limit, RunLimits
from edgepack.verifier.confined.sandbox import SCRATCH, Sandbox, View

MOST_MESSAGES = 1 << 20
"""Letters of messages that are kept, the last ones: who shows them looks at each."""
ROOM = 1 << 16
"""Bytes of a disk that is not full."""
LAUNCHER = Path(__file__).with_name("launcher.py")
ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LOGNAME": "user",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "USER": "user",
}
"""Of every run, whoever made the bundle: what a program sees on a device, and nothing by which it could tell verification."""
GRACE = 30
"""Seconds that the launcher has beside the program's, before it is ended itself."""
SILENT = 10
"""Seconds after which a run is told of."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    output: str
    messages: str
    code: int
    """The exit code; negative: the number of the signal that ended it."""
    passed: Limit | None = None
    """The limit for which it was ended."""
    refused: str | None = None
    """Why nothing was started: the sandbox could not be made, or the program cannot be executed."""
    peak: int = 0
    """Most bytes that were resident at once in one of its processes."""


def confine(
    words: Sequence[str | Path],
    directory: Path,
    *,
    sandbox: Sandbox | None,
    view: View,
    work: Path,
    limits: RunLimits | None = None,
    environment: Mapping[str, str] | None = None,
    input: str = "",
    progress: Callable[[str], AbstractContextManager[Progress]] | None = None,
) -> Ended:
    """Run a command in a folder. ``work`` is where temporary files may lie; ``progress`` is told of what takes long.

    The environment is ``ENVIRONMENT`` and what is given besides. Raises ``ToolError`` when even the launcher does not end.
    """
    limits = limits or RunLimits()
    with tempfile.TemporaryDirectory(prefix="run-", dir=work) as place:
        task = {
            "kind": sandbox.kind if sandbox else "none",
            "parent": os.getpid(),
            "before": sandbox.before(view, directory) if sandbox else [],
            "words": [os.fspath(word) for word in words],
            "directory": str(directory),
            "environment": {**ENVIRONMENT, **(environment or {})},
            "root": _made(Path(place) / "root"),
            "shown": [str(path) for path in view.shown],
            "links": [(str(path), str(to)) for path, to in view.links],
            "devices": [str(path) for path in view.devices],
            "proc": [str(path) for path in view.proc],
            "scratch": SCRATCH,
            "limits": {
                "seconds": limits.seconds,
                "idle": limits.idle,
                "output": limits.output,
                "resident": limits.resident,
                "processes": limits.processes,
                "each": dict(limits.each()),
            },
            "outcome": str(Path(place) / "outcome"),
        }
        file = Path(place) / "task"
        file.write_bytes(marshal.dumps(task))
        command: list[str | Path] = [sys.executable, "-I", "-S", LAUNCHER, file]
        with _told_of(progress, limits.seconds):
            done = tools.run_program(command, input=input, timeout=limits.seconds + GRACE)
        try:
            outcome = marshal.loads(Path(place, "outcome").read_bytes())
        except OSError:
            outcome = {"failed": "it was ended", "code": done.code, "full": free_bytes(Path(place)) < ROOM}
        if outcome.get("full"):
            raise disk_full(Path(place), cache=default_root())
    return Ended(
        output=done.output,
        messages=done.messages[-MOST_MESSAGES:],
        code=outcome.get("code", 127),
        passed=outcome.get("stopped"),
        refused=outcome.get("failed") or outcome.get("not started"),
        peak=outcome.get("peak", 0),
    )


def _made(folder: Path) -> str:
    folder.mkdir()
    return str(folder)


@contextmanager
def _told_of(
    progress: Callable[[str], AbstractContextManager[Progress]] | None, seconds: float
) -> Iterator[None]:
    """After ``SILENT`` seconds, and again after each further such time, say that it runs."""
    if progress is None:
        yield
        return
    ended = threading.Event()

    def tell() -> None:
        if ended.wait(SILENT):
            return
        with progress(f"the program runs; it is ended after {seconds:.0f} s") as bar:
            while True:
                bar.advance(SILENT)
                if ended.wait(SILENT):
                    return

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        ended.set()
        telling.join()
