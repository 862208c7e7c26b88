"""Where the frozen program starts."""

from __future__ import annotations

import os
import signal
import sys

from .cli import frozen_directory, main

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Stopped(BaseException):
    """A signal that asks the program to end; what it was writing is cleaned up on the way out."""


def stop(number: int, frame: object) -> NoReturn:
    raise Stopped(number)


def start() -> NoReturn:
    """Run, and end the way a program of the system ends: quietly when it is told to stop."""
    # A reader that goes away (`| head`) ends us without a word.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        code = main(sys.argv[1:], frozen_directory(), program=os.path.basename(sys.argv[0]))
    except SystemExit as end:
        code = int(end.code or 0)
    except Stopped as stopped:
        (number,) = stopped.args
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        code = 128 + number
    # Everything is written; taking the interpreter and the model apart would only take time.
    os._exit(code)


if __name__ == "__main__":
    start()
