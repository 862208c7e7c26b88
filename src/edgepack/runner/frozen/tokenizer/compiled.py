"""Texts to token ids with the bundle's own tokenizer: a compiled table, and a library that reads it in place.

It gives the ids that Hugging Face's tokenizers gives, which was checked when the bundle was made, without that library and
without its vocabulary in memory: a third of what the program would take otherwise.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Sequence

from ..base.errors import BundleError, RuntimeFailure, UsageError
from ..base.load_errors import TRY_SELF_TEST
from .special_tokens import add_special_tokens

LIBRARY = "lib/libtokens.so"
MESSAGE = 1024


class CompiledTokenizer:
    """What ``HuggingFaceTokenizer`` does, with a table file and the library in the bundle's folder. Raises the same."""

    def __init__(self, path: str, *, directory: str, max_length: int) -> None:
        self._library = load(os.path.join(directory, LIBRARY))
        self._tokenizer = ctypes.c_void_p()
        message = ctypes.create_string_buffer(MESSAGE)
        if self._library.tokens_open(os.fsencode(path), ctypes.byref(self._tokenizer), message, MESSAGE):
            raise BundleError(message.value.decode("utf-8", "replace"), "copy the whole bundle folder again")
        facts = (ctypes.c_size_t * 4)()
        self._library.tokens_facts(self._tokenizer, facts)
        self.pad_id, self._size, self._before, self._after = facts
        special = self._before + self._after
        if max_length <= special:
            raise UsageError(f"--max-length {max_length} leaves no room beside the {special} special tokens")
        self.max_length = max_length

    def encode(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Token ids and token type ids of each text; at least one token each."""
        # Of this call alone: others may come from other threads.
        ids, types = (array("q", bytes(8 * (self.max_length + 1))) for _ in range(2))
        return [self._encode(text.encode(), ids, types) for text in texts]

    def encode_pairs(self, first: str, seconds: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """The same of a text together with each of others; the longer of the two is cut first."""
        ids, types = (array("q", bytes(8 * (self.max_length + 1))) for _ in range(2))
        one = first.encode()
        return [self._encode_pair(one, text.encode(), ids, types) for text in seconds]

    def _encode_pair(
        self, first: bytes, second: bytes, ids: array[int], types: array[int]
    ) -> tuple[list[int], list[int]]:
        places = ids.buffer_info()[0], types.buffer_info()[0]
        texts = first, len(first), second, len(second)
        count = self._library.tokens_encode_pair(self._tokenizer, *texts, self.max_length, *places)
        if not count:
            raise UsageError(
                f"--max-length {self.max_length} leaves no room for two texts, or the tokenizer takes no pairs"
            )
        return ids[:count].tolist(), types[:count].tolist()

    def _encode(self, text: bytes, ids: array[int], types: array[int]) -> tuple[list[int], list[int]]:
        places = ids.buffer_info()[0], types.buffer_info()[0]
        count = self._library.tokens_encode(self._tokenizer, text, len(text), self.max_length, *places)
        return ids[:count].tolist(), types[:count].tolist()

    def with_special_tokens(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """The same for token ids without, or with, the special tokens. Raises ``UsageError`` for what are none."""
        return add_special_tokens(ids, self.special_tokens(), size=self._size, max_length=self.max_length)

    def special_tokens(self) -> tuple[list[int], list[int]]:
        """Ids that go before and after those of a text."""
        ((ids, _),) = self.encode([""])
        return ids[: self._before], ids[self._before : self._before + self._after]


def load(path: str) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path)
        calls = library.tokens_open, library.tokens_facts, library.tokens_encode, library.tokens_encode_pair
    except (OSError, AttributeError) as error:
        # In a frozen program, PyInstaller puts a message of its own before the loader's.
        raise RuntimeFailure(
            f"the tokenizer does not load: {error.__cause__ or error}", TRY_SELF_TEST
        ) from error
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    calls[0].argtypes = [ctypes.c_char_p, pointer, pointer, size]
    calls[1].argtypes = [pointer, pointer]
    calls[1].restype = None
    calls[2].argtypes = [pointer, ctypes.c_char_p, size, size, pointer, pointer]
    calls[2].restype = size
    calls[3].argtypes = [pointer, ctypes.c_char_p, size, ctypes.c_char_p, size, size, pointer, pointer]
    calls[3].restype = size
    return library
