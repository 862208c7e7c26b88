"""Texts into vectors, by the model that lies in this package: ``encode("a text")``, ``encode(["a text", "another"])``.

Needs nothing but Python 3.9 or newer.
"""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, overload

from . import _backend
from ._errors import EmbedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["EmbedError", "encode"]

_MOST = 65535
_open: dict[_backend.Wishes, Callable[[list[str]], list[list[float]]]] = {}
_lock = threading.Lock()


@overload
def encode(  # type: ignore[overload-overlap] # a str is an iterable of them, too
    texts: str,
    *,
    prefix: str | None = None,
    dim: int | None = None,
    max_length: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
) -> list[float]: ...


@overload
def encode(
    texts: Iterable[str],
    *,
    prefix: str | None = None,
    dim: int | None = None,
    max_length: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
) -> list[list[float]]: ...


def encode(
    texts: str | Iterable[str],
    *,
    prefix: str | None = None,
    dim: int | None = None,
    max_length: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
) -> list[float] | list[list[float]]:
    """One text's vector, or a vector for each of several texts, in their order.

    ``prefix`` is "query" or "passage", where the model was trained to see something before them; ``dim`` a shorter vector,
    where it was trained for it; ``max_length`` the tokens that count of a text; ``batch_size`` the texts at once; ``threads``
    the processor's. The model is opened by the first call, stays open, and is opened again for other options. Any number
    of threads may call. Each number is a float32: ``numpy.array(vectors, "float32")`` loses nothing.

    Raises ``TypeError`` for what is no text, ``ValueError`` for a wish that the model cannot fulfil, and ``EmbedError`` when
    the model does not run here.
    """
    wishes = _backend.Wishes(
        prefix=prefix,
        dim=_number("dim", dim),
        max_length=_number("max_length", max_length),
        batch_size=_number("batch_size", batch_size),
        threads=_number("threads", threads),
    )
    if prefix is not None and not isinstance(prefix, str):
        raise TypeError(f"prefix is of type {type(prefix).__name__}, not str")
    several = [texts] if isinstance(texts, str) else _checked(texts)
    vectors = _embedder(wishes)([_well_formed(text) for text in several]) if several else []
    return vectors[0] if isinstance(texts, str) else vectors


def _embedder(wishes: _backend.Wishes) -> Callable[[list[str]], list[list[float]]]:
    with _lock:
        if wishes not in _open:
            _open[wishes] = _backend.embedder(wishes)
        return _open[wishes]


def _number(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is of type {type(value).__name__}, not int")
    if not 1 <= value <= _MOST:
        raise ValueError(f"{name} is {value}, not a number from 1 to {_MOST}")
    return value


def _checked(texts: Iterable[str]) -> list[str]:
    """Iterating over bytes would give numbers, over a dict its keys."""
    if isinstance(texts, (bytes, bytearray, memoryview, dict)) or not hasattr(texts, "__iter__"):
        raise TypeError(f"encode takes a str or several, not what is of type {type(texts).__name__}")
    checked = list(texts)
    for at, text in enumerate(checked):
        if not isinstance(text, str):
            raise TypeError(f"texts[{at}] is of type {type(text).__name__}, not str")
    return checked


def _well_formed(text: str) -> str:
    """Surrogates, which UTF-8 does not have, are U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _after_fork() -> None:
    """A child process has none of its parent's threads, and must not talk with its parent's program."""
    global _lock
    _lock = threading.Lock()
    _backend.after_fork()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
