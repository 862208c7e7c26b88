"""The process that plugins share with the host: what they change of it is put back, and none of them keeps it from ending."""

import locale
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn
from weakref import WeakKeyDictionary

from edgepack.terminal_text import shown

KEPT = ("PATH", "HOME", "TMPDIR")
"""Variables that the host works by, beside its own; what a plugin adds to one stays."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SLOW = 3.0
"""Seconds of an import after which people are told what they wait for."""
GRACE = 3.0
"""Seconds that threads and exit handlers of plugins have once a command is done."""

_leave: Callable[[int], NoReturn] = os._exit
_threads: WeakKeyDictionary[threading.Thread, str] = WeakKeyDictionary()
"""Those that keep the process from ending, and the plugin in whose call they began."""


@contextmanager
def hosted(plugin: str) -> Iterator[None]:
    """Around every call into a plugin.

    What is printed inside goes to stderr, also what native code or a program that is started writes to descriptor 1. Afterwards
    the working folder, the streams, handlers of signals, the locale, the recursion limit and what the host needs of the environment are
    as before. ``os._exit`` is a ``SystemExit`` inside.
    """
    _calls.enter(plugin)
    try:
        yield
    finally:
        _calls.leave()


@contextmanager
def told_when_slow(doing: str, remedy: str) -> Iterator[None]:
    """Say on stderr what is waited for, where that takes longer than ``SLOW``; an interrupt inside is said to be of that."""
    timer = threading.Timer(SLOW, _say, [f"still {doing}; {remedy}"])
    timer.daemon = True
    timer.start()
    try:
        with noted_when_interrupted(f"while {doing}"):
            yield
    finally:
        timer.cancel()


@contextmanager
def noted_when_interrupted(where: str) -> Iterator[None]:
    """An interrupt inside carries where it came, the innermost first."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(where)
        raise


def end(code: int) -> NoReturn:
    """End the program as ``sys.exit`` does, but wait for nobody's threads and exit handlers longer than ``GRACE``."""
    threading.Thread(target=_end_anyway, args=(code,), daemon=True).start()
    sys.exit(code)


def end_now(code: int) -> NoReturn:
    """End the program at once, with nothing but its streams flushed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    _leave(code)


def _end_anyway(code: int) -> None:
    time.sleep(GRACE)
    if threading.main_thread().is_alive():
        return  # whoever called is no program that ends: a test
    left = [f"thread {each.name} of plugin {of}" for each, of in _threads.items() if each.is_alive()]
    _say(f"warning: ended without waiting for {', '.join(left) or 'what a plugin left running'}")
    end_now(code)


def _say(line: str) -> None:
    with suppress(Exception):
        sys.stderr.write(shown(line) + "\n")
        sys.stderr.flush()


class _ToStderr:
    """stdout for plugins: stderr, which stays open when they close it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    def close(self) -> None:
        """Leave it open."""


@dataclass(frozen=True, kw_only=True)
class _State:
    """State of the process that is put back."""

    stdout: IO[str]
    stderr: IO[str]
    copies: tuple[int, int]
    """Of descriptors 1 and 2; -1: that one is not redirected, or closed."""
    folder: Path | None
    variables: dict[str, str]
    handlers: dict[int, Any]
    locale: str
    recursion: int
    hook: Any
    errors: list[Any]
    """Filters that make errors of warnings."""
    threads: frozenset[threading.Thread]


class _Calls:
    """The process is changed when the first thread calls a plugin, and put back when the last call is over."""

    def __init__(self) -> None:
        self._lock, self._depth = threading.Lock(), 0
        self._state: _State | None = None
        self._plugin, self.process = "", 0

    def enter(self, plugin: str) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._plugin, self.process, self._state = plugin, os.getpid(), _taken()
                sys.stdout = _ToStderr()
                os._exit = _exit  # type: ignore[assignment]

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._state is not None:
                os._exit = _leave  # type: ignore[assignment]
                _put_back(self._state)
                for thread in threading.enumerate():
                    if not thread.daemon and thread not in self._state.threads:
                        _threads.setdefault(thread, self._plugin)
                self._state = None


_calls = _Calls()


def _exit(code: int) -> NoReturn:
    if os.getpid() != _calls.process:  # a child that a plugin forked
        _leave(code)
    raise SystemExit(code)


def _taken() -> _State:
    stdout, stderr = sys.stdout, sys.stderr
    with suppress(OSError, ValueError, AttributeError):  # closed
        # What was printed before belongs to stdout, whenever it is flushed.
        stdout.flush()
    return _State(
        stdout=stdout,
        stderr=stderr,
        copies=_redirected(),
        folder=_here(),
        variables={
            name: value for name, value in os.environ.items() if name in KEPT or name.startswith("EDGEPACK_")
        },
        handlers={number: signal.getsignal(number) for number in SIGNALS},
        locale=locale.setlocale(locale.LC_ALL),
        recursion=sys.getrecursionlimit(),
        hook=sys.excepthook,
        errors=[each for each in warnings.filters if each[0] == "error"],
        threads=frozenset(threading.enumerate()),
    )


def _redirected() -> tuple[int, int]:
    """Let descriptor 1 lead where 2 leads; copies of both as they were."""
    # Without a stdout from the start, 1 is some other file's number.
    if sys.__stdout__ is None:
        return -1, -1
    try:
        other = os.dup(2)
    except OSError:
        return -1, -1
    try:
        copy = os.dup(1)
        os.dup2(2, 1)
    except OSError:
        return -1, other
    return copy, other


def _put_back(state: _State) -> None:
    _put_back_streams(state)
    if state.folder and _here() != state.folder:
        with suppress(OSError):
            os.chdir(state.folder)
    for name, value in state.variables.items():
        if value not in os.environ.get(name, ""):
            os.environ[name] = value
    if threading.current_thread() is threading.main_thread():
        for number, handler in state.handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
    if locale.setlocale(locale.LC_ALL) != state.locale:
        locale.setlocale(locale.LC_ALL, state.locale)
    sys.excepthook = state.hook
    if sys.getrecursionlimit() < state.recursion:
        sys.setrecursionlimit(state.recursion)
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    filters[:] = [each for each in filters if each[0] != "error" or each in state.errors]


def _put_back_streams(state: _State) -> None:
    sys.stdout, sys.stderr = state.stdout, state.stderr
    for number, copy in zip((1, 2), state.copies, strict=True):
        if copy >= 0:
            os.dup2(copy, number)
            os.close(copy)
    if state.stderr is not None and state.stderr.closed and state.copies[1] >= 0:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _here() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None
