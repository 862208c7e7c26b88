"""Texts to token ids with Hugging Face's tokenizers."""

from __future__ import annotations

import os
from contextlib import contextmanager

from ..base.errors import BundleError, UsageError
from .special_tokens import add_special_tokens, require_room
from .truncation import FIRST, read_truncator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenizers import Tokenizer

    from .truncation import TextTruncator

HUGE = 1 << 20
"""Characters of a text that is cut before it is tokenized with another one."""
PAD_NAMES = ("[PAD]", "<pad>", "<|padding|>", "<|endoftext|>")


@contextmanager
def panics_told(path: str) -> Iterator[None]:
    """Raises ``BundleError`` where the library's Rust code gives up: an exception that no ``except Exception`` catches."""
    try:
        yield
    except BaseException as error:
        # pyo3 makes the class when it is first needed, and no module has it.
        if type(error).__name__ != "PanicException":
            raise
        said = str(error).partition("\n")[0][:200]
        raise BundleError(
            f"the tokenizers library gives up on {path}: {said}",
            "the bundle's maker has to take another tokenizer",
        ) from error


class HuggingFaceTokenizer:
    """A tokenizer.json at work: special tokens added, truncated to ``max_length``, never padded."""

    def __init__(self, path: str, *, max_length: int, threads: int) -> None:
        # The library reads these when it first works on more than one text.
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
        os.environ["RAYON_NUM_THREADS"] = str(threads)
        from tokenizers import Tokenizer

        try:
            with panics_told(path):
                self._tokenizer = Tokenizer.from_file(path)
        except BundleError:
            raise
        except Exception as error:
            raise BundleError(f"{path} is damaged: {error}", "copy the whole bundle folder again") from error
        self.pad_id = pad_id_of(self._tokenizer)
        special = int(self._tokenizer.num_special_tokens_to_add(False))
        if max_length <= special:
            raise UsageError(f"--max-length {max_length} leaves no room beside the {special} special tokens")
        self.max_length = max_length
        self._path = path
        self._truncator: TextTruncator | None = None
        self._special: tuple[list[int], list[int]] | None = None
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length=max_length)

    def encode(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Token ids and token type ids of each text; at least one token each."""
        with panics_told(self._path):
            encodings = self._tokenizer.encode_batch_fast([self._truncated(text) for text in texts])
        # A tokenizer without special tokens makes nothing of an empty text, and a model nothing of no token.
        return [(encoding.ids or [self.pad_id], encoding.type_ids or [0]) for encoding in encodings]

    def encode_pairs(self, first: str, seconds: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """The same of a text together with each of others; the longer of the two is cut first."""
        require_room(self.max_length, int(self._tokenizer.num_special_tokens_to_add(True)))
        # Which text is the longer one decides what is cut, so that only what would take the memory is cut beforehand.
        with panics_told(self._path):
            first, *seconds = (
                self._truncated(text) if len(text) > HUGE else text for text in (first, *seconds)
            )
            encodings = self._tokenizer.encode_batch_fast([(first, text) for text in seconds])
        return [(encoding.ids or [self.pad_id], encoding.type_ids or [0]) for encoding in encodings]

    def _truncated(self, text: str) -> str:
        if len(text) <= FIRST:
            return text
        if self._truncator is None:
            self._truncator = read_truncator(self._path, max_length=self.max_length)
        return self._truncator.truncate(text, self._count)

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)

    def with_special_tokens(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """The same for token ids without, or with, the special tokens. Raises ``UsageError`` for what are none."""
        size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        return add_special_tokens(ids, self.special_tokens(), size=size, max_length=self.max_length)

    def special_tokens(self) -> tuple[list[int], list[int]]:
        """Ids that go before and after those of a text."""
        if self._special is None:
            with panics_told(self._path):
                self._special = self._found_special_tokens()
        return self._special

    def _found_special_tokens(self) -> tuple[list[int], list[int]]:
        for text in ("a", "the", "0", "."):
            inner = self._tokenizer.encode(text, add_special_tokens=False).ids
            whole = self._tokenizer.encode(text).ids
            for start in range(len(whole) - len(inner) + 1):
                if inner and whole[start : start + len(inner)] == inner:
                    return whole[:start], whole[start + len(inner) :]
        return [], []


def pad_id_of(tokenizer: Tokenizer) -> int:
    """The id to fill batches with. It is masked, so any id of the vocabulary would do."""
    padding = tokenizer.padding
    if padding is not None:
        return int(padding["pad_id"])
    ids = (tokenizer.token_to_id(name) for name in PAD_NAMES)
    return next((found for found in ids if found is not None), 0)
