"""Ending the way a program of the system ends: quietly when told to, with a sentence when a library gives up."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

ABORTED = (
    b"error: the runtime library gave up on the model\n"
    b"hint: run the program with --self-test: it says which file of the bundle is damaged\n"
)
RUNTIME_FAILURE = 5


class Stopped(BaseException):
    """A signal that asks the program to end; what it was writing is cleaned up on the way out."""


def stop(number: int, frame: object) -> NoReturn:
    raise Stopped(number)


def listen() -> None:
    """Let a reader that goes away (`| head`) end us without a word, and an interrupt or SIGTERM as ``Stopped``."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGTERM):
        # What was ignored when we were started (nohup, a shell's background job) stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def die_of(number: int) -> int:
    """End by a signal's own doing, so that a shell sees what happened; the exit code where that does not end us."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def answer_aborts() -> None:
    """A library built without exceptions aborts where another would throw: say so, and end with our own exit code.

    Python's handlers would wait for the library to return, so this one is a C callback.
    """
    global _handler
    import ctypes

    kind = ctypes.CFUNCTYPE(None, ctypes.c_int)
    _handler = kind(_aborted)
    set_handler = ctypes.CDLL(None).signal
    set_handler.argtypes = (ctypes.c_int, kind)
    set_handler.restype = ctypes.c_void_p
    set_handler(signal.SIGABRT, _handler)


_handler: object = None


def _aborted(number: int) -> None:
    os.write(2, ABORTED)
    os._exit(RUNTIME_FAILURE)
