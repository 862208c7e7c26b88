"""Ending the way a program of the system ends: quietly when told to, with a sentence when a library gives up."""

import _thread
import os
import signal

ABORTED = (
    b"error: the runtime library aborted while running the model\n"
    b"hint: run --self-test to find the damaged file of the bundle\n"
)
CUT_SHORT = (
    b"error: a file of the bundle was truncated, or became unreadable, while the program ran\n"
    b"hint: replace the whole bundle folder by a rename, never single files in it\n"
)
RUNTIME_FAILURE, BUNDLE_DAMAGED = 5, 4


STOPPING = (signal.SIGINT, signal.SIGTERM)


def die_quietly() -> None:
    """Let a reader that goes away (`| head`), an interrupt and SIGTERM end the process by their own doing, at once.

    Python's own handlers would wait for what the main thread does: for a line that never comes, for the model.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def hold() -> set[int]:
    """Keep what asks the process to stop waiting, until ``remove_when_stopped``; returned is what is kept.

    Threads that exist already are not kept from it: call this first. What was ignored when the process was started
    (nohup, a shell's background job) stays so.
    """
    held: set[int] = {number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    return held


def remove_when_stopped(path: str, held: set[int]) -> None:
    """Have a thread wait for the signals that are held; when one comes, ``path`` is removed and the process ends of it."""

    def wait() -> None:
        number = signal.sigwait(held)
        try:  # noqa: SIM105 - contextlib would be imported for this alone
            os.unlink(path)
        except OSError:
            pass
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
        os.kill(os.getpid(), number)

    if held:
        _thread.start_new_thread(wait, ())


def answer_aborts() -> None:
    """A library built without exceptions aborts where another would throw, and what reads a mapped file that was cut short
    gets SIGBUS: say so, and end with our own exit code.

    Python's handlers would wait for the library to return, so this one is a C callback.
    """
    global _handler
    import ctypes

    kind = ctypes.CFUNCTYPE(None, ctypes.c_int)
    _handler = kind(_failed)
    set_handler = ctypes.CDLL(None).signal
    set_handler.argtypes = (ctypes.c_int, kind)
    set_handler.restype = ctypes.c_void_p
    set_handler(signal.SIGABRT, _handler)
    set_handler(signal.SIGBUS, _handler)


_handler: object = None


def _failed(number: int) -> None:
    os.write(2, ABORTED if number == signal.SIGABRT else CUT_SHORT)
    os._exit(RUNTIME_FAILURE if number == signal.SIGABRT else BUNDLE_DAMAGED)
