"""The command as a user runs it, in a process of its own."""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.support import preloaded

AT_START = ("PYTHON", "LANG", "LC_", "LD_", "OMP_", "OPENBLAS_", "MALLOC_")
"""What variables begin with that an interpreter and its libraries read before anything runs."""
ENVIRONMENT = dict(os.environ)
preload = True
"""Whether the command's process begins with its modules imported; `make test-all` has those of users, who import each time."""
elsewhere = 0.0
"""Processor seconds of such processes: they are children of another process."""


def edgepack(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``edgepack`` with these arguments and keep what it prints."""
    environment = {**os.environ, **(env or {})}
    if preload and _at_start(environment) == _at_start(ENVIRONMENT):
        return _preloaded(arguments, environment, cwd or Path.cwd())
    return subprocess.run(
        [sys.executable, "-m", "edgepack", *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        cwd=cwd,
        check=False,
    )


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


@cache
def _server() -> socket.socket:
    here, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
    command = [sys.executable, preloaded.__file__, str(there.fileno())]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=ENVIRONMENT, pass_fds=[there.fileno()])
    there.close()

    def end() -> None:
        here.close()  # nobody is there any more who orders
        process.wait()

    atexit.register(end)
    return here


def _preloaded(
    arguments: tuple[str, ...], environment: dict[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    global elsewhere
    # Whether this test may start a program is asked each time.
    sys.audit("subprocess.Popen", sys.executable, arguments, cwd, environment)
    with tempfile.NamedTemporaryFile() as output, tempfile.NamedTemporaryFile() as messages:
        order = {
            "words": arguments,
            "environment": environment,
            "folder": str(cwd),
            "output": output.name,
            "messages": messages.name,
        }
        server = _server()
        server.send(json.dumps(order).encode())
        answer = server.recv(preloaded.LONGEST)
        assert answer, "the process that imports the command's modules has ended; see what it said"
        done = json.loads(answer)
        elsewhere += done["seconds"]
        said = [Path(each.name).read_text(encoding="utf-8") for each in (output, messages)]
    return subprocess.CompletedProcess(arguments, done["code"], *said)
