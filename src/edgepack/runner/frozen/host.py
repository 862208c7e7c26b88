"""What Python gives the C++ program: a tokenizer, and the user's own module, called by it (program/host.h says how)."""

from __future__ import annotations

import os
from array import array
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_void_p,
    string_at,
)

from edgepack.verifier.confined.user_module import UserModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .tokenizer import HuggingFaceTokenizer

RUNTIME = 5
"""Exit code: what should compute does not."""
LIBRARY = "_internal/libembed.so"
TEXTS = (POINTER(c_void_p), POINTER(c_size_t), c_size_t)
"""Where each begins, how many bytes it has, and how many there are."""
CALLS: dict[str, tuple[Any, ...]] = {
    "open_tokenizer": (c_char_p,),
    "encode": (c_void_p, c_size_t, c_void_p, c_size_t, c_size_t),
    "open_module": (c_char_p,),
    "prepare": TEXTS,
    "finish": (POINTER(c_float), c_size_t, *TEXTS),
}
"""Call of ``embed_host`` → its arguments, behind which comes where the answer goes."""
PROTOTYPES = {name: CFUNCTYPE(c_int, *kinds, c_void_p) for name, kinds in CALLS.items()}


class Host(Structure):
    """``embed_host`` of program/host.h."""

    _fields_ = tuple(PROTOTYPES.items())


class Given:
    """Tokenizer and module behind the calls; each is opened when it is first asked for."""

    tokenizer: HuggingFaceTokenizer
    module: UserModule

    def open_tokenizer(self, path: bytes) -> bytes:
        """Its facts, five numbers of 32 bits."""
        from .tokenizer import HuggingFaceTokenizer

        self.tokenizer = HuggingFaceTokenizer(os.fsdecode(path))
        return array("I", self.tokenizer.facts()).tobytes()

    def encode(self, text: int, size: int, second: int | None, second_size: int, max_length: int) -> bytes:
        """Ids, and as many types behind them, of 32 bits each."""
        other = string_at(second, second_size).decode() if second is not None else None
        ids, types = self.tokenizer.encode(string_at(text, size).decode(), other, max_length)
        return array("I", ids).tobytes() + array("I", types).tobytes()

    def open_module(self, path: bytes) -> bytes:
        """Two bytes: whether it prepares, and whether it finishes."""
        self.module = UserModule(os.fsdecode(path))
        return bytes((self.module.prepares, self.module.finishes))

    def prepare(self, texts: Any, lengths: Any, count: int) -> bytes:
        """The length of each text, 64 bits, and behind all of them the texts."""
        made = [text.encode("utf-8", "replace") for text in self.module.prepare(read(texts, lengths, count))]
        return array("Q", map(len, made)).tobytes() + b"".join(made)

    def finish(self, vectors: Any, dimension: int, texts: Any, lengths: Any, count: int) -> bytes:
        """The vectors, float32 [texts, dimension]."""
        rows = [list(vectors[row * dimension : (row + 1) * dimension]) for row in range(count)]
        finished = self.module.finish(rows, read(texts, lengths, count))
        return b"".join(array("f", row).tobytes() for row in finished)


def read(texts: Any, lengths: Any, count: int) -> list[str]:
    return [string_at(texts[at] or 0, lengths[at]).decode() if lengths[at] else "" for at in range(count)]


def run(directory: str, words: Sequence[str]) -> int:
    """The C++ program with these words, and the code that it ends with."""
    library = CDLL(os.path.join(directory, LIBRARY))
    library.embed_answer.argtypes = (c_void_p, c_char_p, c_size_t)
    given = Given()
    calls = {name: answered(getattr(given, name), library.embed_answer) for name in CALLS}
    host = Host(**{name: kind(calls[name]) for name, kind in PROTOTYPES.items()})
    arguments = (c_char_p * (len(words) + 1))(*map(os.fsencode, words), None)
    return int(library.embed_main_with(len(words), arguments, byref(host)))


def answered(work: Callable[..., bytes], answer: Callable[..., None]) -> Callable[..., int]:
    """A call that hands over what ``work`` gives, or why it gives nothing, and answers with a code."""

    def call(*arguments: Any) -> int:
        code = 0
        try:
            said = work(*arguments[:-1])
        except BaseException as error:
            code, said = refused(error)
        answer(arguments[-1], said, len(said))
        return code

    return call


def refused(error: BaseException) -> tuple[int, bytes]:
    """The code that the program is to end with, and its two lines."""
    message, code = getattr(error, "message", None), RUNTIME
    if message is None:
        message = f"the Python of this program failed: {type(error).__name__}: {error}"
    else:
        code = getattr(error, "code", RUNTIME)
    return code, f"{message}\n{getattr(error, 'hint', '')}".encode("utf-8", "replace")
