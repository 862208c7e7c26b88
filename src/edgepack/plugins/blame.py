"""Whatever a plugin raises becomes an error that names the plugin and what of it was called."""

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from edgepack.errors import CannotRunHere, EdgepackError, PluginError

T = TypeVar("T")

DEBUG = "--debug shows where the plugin failed"


@contextmanager
def blamed_on(
    plugin: str,
    called: str,
    *,
    hint: str = DEBUG,
    on_purpose: tuple[type[Exception], ...] = (EdgepackError, CannotRunHere),
) -> Iterator[None]:
    """Turn what is raised inside into a ``PluginError``, but for what is raised ``on_purpose``, for people to read.

    What a plugin prints goes to stderr: stdout is the command's result, which may be JSON.
    """
    try:
        with printing_to_stderr():
            yield
    except on_purpose:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(f"plugin {plugin} failed in {called}: {in_words(error)}", hint=hint) from error


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """What is printed inside goes to stderr, also what a native library or a program that is started writes to descriptor 1."""
    with _redirection, redirect_stdout(sys.stderr):
        yield


class _Redirection:
    """Descriptor 1 leads to stderr while any thread is inside."""

    def __init__(self) -> None:
        self._lock, self._depth, self._saved = threading.Lock(), 0, -1

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            # Without a stdout from the start, 1 is some other file's number.
            if self._depth == 1 and sys.__stdout__ is not None:
                self._redirect()

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._saved >= 0:
                os.dup2(self._saved, 1)
                os.close(self._saved)
                self._saved = -1

    def _redirect(self) -> None:
        try:
            # What was printed before belongs to stdout, whenever it is flushed.
            if sys.stdout is not None:
                sys.stdout.flush()
            saved = os.dup(1)
        except (OSError, ValueError):  # closed
            return
        try:
            os.dup2(2, 1)
        except OSError:
            os.close(saved)
        else:
            self._saved = saved


_redirection = _Redirection()


def within(seconds: float, plugin: str, called: str, call: Callable[[], T]) -> T:
    """What a quick call into a plugin returns. Raises ``PluginError`` when it raises, or does not return in time.

    A call that does not return is left to itself, in a thread that ends with the process.
    """
    answers: queue.SimpleQueue[tuple[T] | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(),))
        except BaseException as error:
            answers.put(error)

    with blamed_on(plugin, called):
        threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise PluginError(f"plugin {plugin}: {called} did not return within {seconds:g} s") from None
        if isinstance(answer, BaseException):
            raise answer
        return answer[0]


def listed(plugin: str, called: str, answer: object, expected: str) -> list[Any]:
    """What a plugin gave as a list of something. Raises ``PluginError`` for what is none, or fails while it is gone through."""
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise PluginError(
            f"plugin {plugin}: {called} returned {repr(answer)[:80]}, expected a list of {expected}"
        )
    with blamed_on(plugin, called):
        return list(answer)


class Blamed:
    """A plugin's object as the host uses it: what its properties and methods raise is said to be the plugin's."""

    def __init__(self, plugin: str, made: object) -> None:
        self._plugin, self._made = plugin, made

    def __getattr__(self, name: str) -> Any:
        with blamed_on(self._plugin, name):
            found = getattr(self._made, name)
        return partial(self._call, name, found) if callable(found) else found

    def _call(self, name: str, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with blamed_on(self._plugin, name):
            return method(*arguments, **named)


def in_words(error: BaseException) -> str:
    """An error in a line: its message, after its class where that is not edgepack's own."""
    if isinstance(error, EdgepackError):
        return str(error)
    words = f"{type(error).__name__}: {error}"
    return f"it ended the program ({words})" if isinstance(error, SystemExit) else words
