"""The bundle that this file lies in, as a Python module: ``edgepack_bundle.embed(["a text"])``.

Needs nothing but Python 3.8 or newer. Put the folder of this file on ``sys.path`` (or PYTHONPATH).
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Bundle", "EmbedError", "embed"]

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
    )


class Bundle:
    """An open bundle; any number of threads may call ``embed`` at once. ``close()`` it, or use it in a ``with``."""

    def __init__(
        self,
        folder: str = _FOLDER,
        *,
        prefix: str | None = None,
        dim: int = 0,
        max_length: int = 0,
        batch_size: int = 0,
        threads: int = 0,
    ) -> None:
        self._library = ctypes.CDLL(os.path.join(folder, "lib", "libembed.so"))
        self._library.embed_dimension.restype = ctypes.c_size_t
        for function in (self._library.embed_dimension, self._library.embed_close):
            function.argtypes = [ctypes.c_void_p]
        options = _Options(batch_size, max_length, dim, threads, prefix.encode() if prefix else None)
        self._bundle = ctypes.c_void_p()
        self._call("embed_open", os.fsencode(folder), ctypes.byref(options), ctypes.byref(self._bundle))
        self.dimension = int(self._library.embed_dimension(self._bundle))

    def embed(self, texts: Sequence[str]) -> Any:
        """A row for each text: a NumPy array, float32 [texts, dimension], where NumPy is installed, else lists."""
        raw = [text.encode("utf-8", "replace") for text in texts]
        pointers = (ctypes.c_char_p * len(raw))(*raw)
        lengths = (ctypes.c_size_t * len(raw))(*map(len, raw))
        vectors = (ctypes.c_float * (len(raw) * self.dimension))()
        self._call("embed_texts", self._bundle, pointers, lengths, ctypes.c_size_t(len(raw)), vectors)
        try:
            import numpy
        except ImportError:
            return [list(vectors[at : at + self.dimension]) for at in range(0, len(vectors), self.dimension)]
        return numpy.frombuffer(memoryview(vectors), dtype=numpy.float32).reshape(len(raw), self.dimension)

    def close(self) -> None:
        self._library.embed_close(self._bundle)
        self._bundle = ctypes.c_void_p()

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


_own: Bundle | None = None


def embed(texts: Sequence[str]) -> Any:
    """Vectors of the texts by the bundle of this file, which stays open."""
    global _own
    if _own is None:
        _own = Bundle()
    return _own.embed(texts)
