"""Whatever a plugin raises becomes an error that names the plugin and what of it was called."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from edgepack.errors import CannotRunHere, EdgepackError, PluginError
from edgepack.plugins.process import hosted, noted_when_interrupted

T = TypeVar("T")

DEBUG = "--debug shows where the plugin failed"
LONGEST = 2_000
"""Characters of an error that a plugin raised."""
MOST = 10_000
"""Things that one list of a plugin's may hold: a generator may have no end."""


@contextmanager
def blamed_on(
    plugin: str,
    called: str,
    *,
    hint: str = DEBUG,
    on_purpose: tuple[type[Exception], ...] = (EdgepackError, CannotRunHere),
) -> Iterator[None]:
    """Turn what is raised inside into a ``PluginError``, but for what is raised ``on_purpose``, for people to read.

    What it does to the process is put back (``edgepack.plugins.process``).
    """
    try:
        with hosted(plugin), noted_when_interrupted(f"in {called} of plugin {plugin}"):
            yield
    except KeyboardInterrupt:
        raise
    except on_purpose:
        raise
    except BaseException as error:
        raise PluginError(f"plugin {plugin} failed in {called}: {in_words(error)}", hint=hint) from error


def within(seconds: float, plugin: str, called: str, call: Callable[[], T]) -> T:
    """Result of a quick call into a plugin. Raises ``PluginError`` when it raises, or does not return in time.

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
    """List that a plugin gave. Raises ``PluginError`` for an answer that is none, has no end, or fails while it is gone through."""
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise PluginError(
            f"plugin {plugin}: {called} returned {repr(answer)[:80]}, expected a list of {expected}"
        )
    with blamed_on(plugin, called):
        found = list(islice(answer, MOST + 1))
    if len(found) > MOST:
        raise PluginError(f"plugin {plugin}: {called} returned more than {MOST} {expected}")
    return found


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
    try:
        words = f"{type(error).__name__}: {error}"[:LONGEST].removesuffix(": ")
    except Exception:  # of an error that cannot even say what it is
        words = type(error).__name__
    return f"it ended the program ({words})" if isinstance(error, SystemExit) else words
