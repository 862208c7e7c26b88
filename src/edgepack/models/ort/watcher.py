"""Ends a process that computes for too long where it cannot do so itself: within one call of a library that does not return.

A program of its own, which ``processor_time.py`` starts: it imports nothing of edgepack.
"""

import json
import os
import select
import signal
import sys
from typing import Any

EVERY = 0.5
"""Seconds between two looks at the process."""
SHOW_CURSOR = "\x1b[?25h"


def main() -> None:
    """Each line of standard input begins or ends a limit; the program ends with that input."""
    parent, rest = os.getppid(), b""
    limits: dict[int, dict[str, Any]] = {}
    while True:
        if select.select([0], [], [], EVERY if limits else None)[0]:
            said = os.read(0, 1 << 16)
            if not said:
                return
            *lines, rest = (rest + said).split(b"\n")
            for line in map(json.loads, lines):
                if line["until"] is None:
                    limits.pop(line["limit"], None)
                else:
                    limits[line["limit"]] = line
            continue
        passed = [each for each in limits.values() if processor_time(parent, each["thread"]) > each["until"]]
        if os.getppid() != parent:
            return
        if passed:
            end(parent, passed[0])
            return


def processor_time(process: int, thread: int) -> float:
    """Seconds that a thread of a process has taken; none where it has just ended."""
    try:
        with open(f"/proc/{process}/task/{thread}/stat", "rb") as stream:  # noqa: PTH123 - pathlib would take longer to import than the rest
            numbers = stream.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return sum(map(int, numbers[11:13])) / os.sysconf("SC_CLK_TCK")


def end(process: int, limit: dict[str, Any]) -> None:
    """Say why, and end it: no milder signal reaches a process within such a call."""
    os.kill(process, signal.SIGSTOP)
    sys.stderr.write(f"{SHOW_CURSOR if sys.stderr.isatty() else ''}\n{limit['say']}\n")
    sys.stderr.flush()
    os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
