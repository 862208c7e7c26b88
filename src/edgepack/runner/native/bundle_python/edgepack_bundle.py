"""The bundle that this file lies in, as a Python module.

``edgepack_bundle.embed("a text")`` is one vector, ``edgepack_bundle.embed(["a text", "another"])`` one a row. Of a reranker
``edgepack_bundle.scores(texts, query="a query")`` are the scores, of a classifier ``edgepack_bundle.scores(texts)``.
Needs nothing but Python 3.8 or newer. Put the zip of this file, ``python`` in the bundle's folder, on ``sys.path`` (or PYTHONPATH).
"""

from __future__ import annotations

import ctypes
import math
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = ["Bundle", "EmbedError", "embed", "scores"]

_FOLDER = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class EmbedError(Exception):
    """What the library said; ``code`` is as the program's exit codes."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class _Options(ctypes.Structure):
    _fields_ = (
        ("batch_size", ctypes.c_size_t),
        ("max_length", ctypes.c_size_t),
        ("dimension", ctypes.c_size_t),
        ("threads", ctypes.c_int),
        ("prefix", ctypes.c_char_p),
        ("check", ctypes.c_int),
        ("public_key", ctypes.c_char_p),
    )


class _Chunked(ctypes.Structure):
    _fields_ = (
        ("texts", ctypes.c_size_t),
        ("offsets", ctypes.POINTER(ctypes.c_size_t)),
        ("starts", ctypes.POINTER(ctypes.c_size_t)),
        ("ends", ctypes.POINTER(ctypes.c_size_t)),
        ("vectors", ctypes.POINTER(ctypes.c_float)),
    )


class _Opened(ctypes.c_void_p):
    """A bundle of the library's. A call that runs holds it, and so the last one closes it."""

    close: Any = None

    def __del__(self) -> None:
        if self.close:
            self.close(self)


class Bundle:
    """An open bundle; any number of threads may call ``embed`` at once. ``close()`` it, or use it in a ``with``.

    ``check`` is how a damaged model is found: ``content`` (its SHA-256), ``once`` (the same, once in a process) or ``size``.
    ``public_key`` is the text of a PEM: a bundle that is not signed with that key is refused. The library that looks is the bundle's
    own, of ``folder``: have the folder's origin from elsewhere, or name a ``library`` that you trust. A bundle that is one file needs one.
    """

    def __init__(
        self,
        folder: str = _FOLDER,
        *,
        prefix: str | None = None,
        dim: int = 0,
        max_length: int = 0,
        batch_size: int = 0,
        threads: int = 0,
        check: str = "content",
        public_key: str | None = None,
        library: str | None = None,
    ) -> None:
        self._folder = os.fspath(folder)
        self._library = ctypes.CDLL(library or os.path.join(folder, "lib", "libembed.so"))
        self._library.embed_dimension.restype = ctypes.c_size_t
        for function in (self._library.embed_dimension, self._library.embed_close):
            function.argtypes = [ctypes.c_void_p]
        how = ("content", "once", "size").index(check)
        # An empty key is one that no bundle is signed with.
        key = None if public_key is None else public_key.encode()
        numbers = map(_number, (batch_size, max_length, dim, threads))
        options = _Options(*numbers, prefix.encode() if prefix else None, how, key)
        self._bundle = _Opened()
        self._call("embed_open", os.fsencode(folder), ctypes.byref(options), ctypes.byref(self._bundle))
        self.dimension = int(self._library.embed_dimension(self._bundle))
        self.labels = tuple(self._labels())
        """What a classifier's scores are of; a reranker has one, and an embedding model none."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._folder!r}, dimension={self.dimension})"

    def embed(self, texts: str | Iterable[str], *, normalize: bool = False) -> Any:
        """One text's vector, float32 [dimension], or a row for each of several, float32 [texts, dimension].

        NumPy arrays where NumPy is installed, else lists. ``normalize`` brings vectors to length 1 where the model does not.
        ``TypeError`` for what is neither a text nor texts, bytes too.
        """
        rows = self._rows([texts] if isinstance(texts, str) else _checked(texts))
        if normalize:
            rows = _unit(rows)
        return rows[0] if isinstance(texts, str) else rows

    def scores(self, texts: str | Iterable[str], *, query: str | None = None) -> Any:
        """Of one text the score of each label, float32 [labels], or a row for each of several, float32 [texts, labels].

        A reranker takes texts together with ``query``. ``EmbedError`` for a model that gives no scores.
        """
        asked = None if query is None else _utf8(query)
        if asked and b"\0" in asked:
            raise ValueError("the query has a NUL")
        given = [texts] if isinstance(texts, str) else _checked(texts)
        rows = self._rows(given, "embed_scores", len(self.labels), ctypes.c_char_p(asked))
        return rows[0] if isinstance(texts, str) else rows

    def tokens(self, text: str) -> list[int]:
        """The ids of a text's tokens, as the model takes them."""
        raw, ids, count = _utf8(_checked([text])[0]), (ctypes.c_uint32 * 0)(), ctypes.c_size_t()
        length = ctypes.byref(ctypes.c_size_t(len(raw)))
        while True:
            room = ctypes.c_size_t(len(ids))
            self._call("embed_tokens", self._bundle, raw, length, ids, room, ctypes.byref(count))
            if count.value <= len(ids):
                return list(ids[: count.value])
            ids = (ctypes.c_uint32 * count.value)()

    def similarity(self, first: str, second: str) -> float:
        """The cosine of the angle between two texts' vectors."""
        raw = [_utf8(text) for text in _checked([first, second])]
        lengths, made = (ctypes.c_size_t * 2)(*map(len, raw)), ctypes.c_double()
        self._call("embed_similarity", self._bundle, (ctypes.c_char_p * 2)(*raw), lengths, ctypes.byref(made))
        return made.value

    def chunks(self, text: str, tokens: int, *, late: bool = False) -> tuple[list[tuple[int, int]], Any]:
        """Where the chunks of a text lie, as places of ``text[start:end]``, and their vectors, a row each.

        A chunk has at most so many tokens, and ends where a paragraph, a sentence or a word does. ``late``: chunks that fit in the model
        together are read together, and each vector is pooled of its chunk's tokens; for models with mean pooling and edgepack's engine.
        """
        raw, made = _utf8(_checked([text])[0]), _Chunked()
        length = ctypes.byref(ctypes.c_size_t(len(raw)))
        counts = map(ctypes.c_size_t, (1, _number(tokens)))
        asked = (ctypes.byref(ctypes.c_char_p(raw)), length, *counts)
        self._call("embed_chunks", self._bundle, *asked, int(late), ctypes.byref(made))
        count = made.offsets[1]
        # Each is decoded up to its end once: places are counted in characters.
        places, known, at = [], 0, 0
        for start, end in zip(made.starts[:count], made.ends[:count]):
            first = at + len(raw[known:start].decode())
            known, at = end, first + len(raw[start:end].decode())
            places.append((first, at))
        numbers = (ctypes.c_float * (count * self.dimension)).from_buffer_copy(
            ctypes.string_at(made.vectors, 4 * count * self.dimension)
        )
        self._library.embed_free_chunks(ctypes.byref(made))
        return places, _in_rows(numbers, self.dimension)

    def _labels(self) -> Iterator[str]:
        label = self._library.embed_label
        label.restype, label.argtypes = ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_size_t]
        at = 0
        while (name := label(self._bundle, at)) is not None:
            yield name.decode("utf-8", "replace")
            at += 1

    def _rows(self, texts: list[str], function: str = "embed_texts", width: int = 0, *before: object) -> Any:
        """What a function of the library writes of texts, a row each of ``width`` numbers (0: a vector's)."""
        raw = [_utf8(text) for text in texts]
        pointers = (ctypes.c_char_p * len(raw))(*raw)
        lengths = (ctypes.c_size_t * len(raw))(*map(len, raw))
        width = width or self.dimension
        numbers = (ctypes.c_float * (len(raw) * width))()
        self._call(function, self._bundle, *before, pointers, lengths, ctypes.c_size_t(len(raw)), numbers)
        return _in_rows(numbers, width)

    def close(self) -> None:
        """Refuse further calls, and close the bundle when those that run have ended. A second time does nothing."""
        bundle, self._bundle = self._bundle, _Opened()
        if bundle:
            bundle.close = self._library.embed_close

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, name: str, *arguments: object) -> None:
        if name != "embed_open" and not self._bundle:
            raise EmbedError("the bundle is closed", 1)
        error = ctypes.create_string_buffer(1024)
        code = getattr(self._library, name)(*arguments, error, ctypes.c_size_t(len(error)))
        if code:
            raise EmbedError(error.value.decode("utf-8", "replace"), code)


def _in_rows(numbers: Any, width: int) -> Any:
    """A NumPy array where NumPy is installed, else lists."""
    try:
        import numpy
    except ImportError:
        return [list(numbers[at : at + width]) for at in range(0, len(numbers), width)]
    return numpy.ctypeslib.as_array(numbers).reshape(-1, width)


def _number(asked: int) -> int:
    """One that C has, too: ctypes makes 0 of 2**64, which stands for the bundle's own way."""
    if not 0 <= asked < 1 << 31:
        raise ValueError(f"{asked} is no number of anything")
    return asked


def _utf8(text: str) -> bytes:
    """Half a surrogate pair is U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _checked(texts: Iterable[str]) -> list[str]:
    """The texts, each of them a ``str``; iterating over bytes would give numbers."""
    if isinstance(texts, (bytes, bytearray, memoryview)):
        raise TypeError(f"embed takes str, not {type(texts).__name__}: decode it first")
    checked = list(texts)
    for at, text in enumerate(checked):
        if not isinstance(text, str):
            raise TypeError(f"embed takes str: texts[{at}] is of type {type(text).__name__}")
    return checked


def _unit(rows: Any) -> Any:
    """Rows of length 1; zeros stay zeros."""
    if isinstance(rows, list):
        lengths = [math.sqrt(sum(x * x for x in row)) or 1.0 for row in rows]
        return [[x / length for x in row] for row, length in zip(rows, lengths)]
    import numpy

    lengths = numpy.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / numpy.where(lengths > 0, lengths, 1)


_own: dict[tuple[str | None, int], Bundle] = {}


def embed(
    texts: str | Iterable[str], *, prefix: str | None = None, dim: int = 0, normalize: bool = False
) -> Any:
    """``Bundle.embed`` of the bundle of this file, which stays open: once for each ``prefix`` and ``dim`` that is asked for."""
    return _opened(prefix, dim).embed(texts, normalize=normalize)


def scores(texts: str | Iterable[str], *, query: str | None = None) -> Any:
    """``Bundle.scores`` of the bundle of this file, which stays open."""
    return _opened(None, 0).scores(texts, query=query)


def _opened(prefix: str | None, dim: int) -> Bundle:
    if (prefix, dim) not in _own:
        _own[prefix, dim] = Bundle(prefix=prefix, dim=dim)
    return _own[prefix, dim]
