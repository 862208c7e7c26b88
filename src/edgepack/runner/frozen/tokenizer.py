"""Texts to token ids with Hugging Face's tokenizers, where a tokenizer does not compile to the program's tables."""

from __future__ import annotations

import json
import os
from _thread import allocate_lock
from contextlib import contextmanager

from edgepack.runner.tokenizer.truncation import FIRST, TextTruncator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HUGE = 1 << 20
"""Characters of a text that is cut before it is tokenized with another one."""
PAD_NAMES = ("[PAD]", "<pad>", "<|padding|>", "<|endoftext|>")


class TokenizerError(Exception):
    """Fault of a tokenizer, and a hint."""

    code = 4
    """The program's exit code: a file of the bundle is damaged."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@contextmanager
def told(path: str) -> Iterator[None]:
    """Raises ``TokenizerError`` for what the library raises, and where its Rust code gives up, which no ``except Exception`` catches."""
    try:
        yield
    except BaseException as error:
        said = str(error).partition("\n")[0][:200]
        # pyo3 makes the class when it is first needed, and no module has it.
        if type(error).__name__ == "PanicException":
            hint = "the bundle's maker has to take another tokenizer"
            raise TokenizerError(f"the tokenizers library gives up on {path}: {said}", hint) from error
        if not isinstance(error, Exception):
            raise
        raise TokenizerError(f"{path} is damaged: {said}", "copy the whole bundle folder again") from error


class HuggingFaceTokenizer:
    """A tokenizer.json at work: special tokens added, truncated, never padded. Threads may share it."""

    def __init__(self, path: str) -> None:
        # The library reads this when it first works on more than one text.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        with told(path):
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_file(path)
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
        self._path, self._lock, self._max_length = path, allocate_lock(), 0
        self._truncators: dict[int, TextTruncator] = {}
        self._pad_id = self._padding()

    def facts(self) -> tuple[int, int, int, int, int]:
        """Special tokens before and behind a text, the id that fills batches, how many ids there are, special tokens of a pair."""
        with told(self._path):
            before, after = self._special_tokens()
            size = self._tokenizer.get_vocab_size(with_added_tokens=True)
            return before, after, self._pad_id, size, int(self._tokenizer.num_special_tokens_to_add(True))

    def encode(self, text: str, second: str | None, max_length: int) -> tuple[list[int], list[int]]:
        """Token ids and token type ids of a text, or of two together, of which the longer is cut; at least one token."""
        with self._lock, told(self._path):
            if max_length != self._max_length:
                self._tokenizer.enable_truncation(max_length=max_length)
                self._max_length = max_length
            if second is None:
                encoding = self._tokenizer.encode(self._cut(text))
            else:
                # Which text is the longer one decides what is cut, so that only what would take the memory is cut beforehand.
                first, other = (self._cut(each) if len(each) > HUGE else each for each in (text, second))
                encoding = self._tokenizer.encode(first, other)
        # A tokenizer without special tokens makes nothing of an empty text, and a model nothing of no token.
        return encoding.ids or [self._pad_id], encoding.type_ids or [0]

    def _cut(self, text: str) -> str:
        """The part of a long text that gives its first tokens."""
        if len(text) <= FIRST:
            return text
        if self._max_length not in self._truncators:
            with open(self._path, "rb") as stream:
                document = json.loads(stream.read())
            self._truncators[self._max_length] = TextTruncator(document, max_length=self._max_length)
        cut: str = self._truncators[self._max_length].truncate(text, self._count)
        return cut

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)

    def _special_tokens(self) -> tuple[int, int]:
        for text in ("a", "the", "0", "."):
            inner = self._tokenizer.encode(text, add_special_tokens=False).ids
            whole = self._tokenizer.encode(text).ids
            for start in range(len(whole) - len(inner) + 1):
                if inner and whole[start : start + len(inner)] == inner:
                    return start, len(whole) - len(inner) - start
        return int(self._tokenizer.num_special_tokens_to_add(False)), 0

    def _padding(self) -> int:
        """It is masked, so any id of the vocabulary would do."""
        ids = (self._tokenizer.token_to_id(name) for name in PAD_NAMES)
        return next((found for found in ids if found is not None), 0)
