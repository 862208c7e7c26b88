"""The native tokenizer beside Hugging Face's, on the same texts."""

import itertools
import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from edgepack.runner.tokenizer.compile import compile_tokenizer
from edgepack.verifier.texts.fuzz import fuzz_texts_for

CHUNK = 20_000


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A text, the ids that it should have, and those that it got."""

    text: str
    expected: list[int]
    found: list[int]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A tokenizer.json at work in both tokenizers, cutting at ``max_length``."""

    reference: Tokenizer
    tool: Path
    table: Path
    max_length: int

    def mismatches(self, texts: Iterable[str]) -> Iterator[Mismatch]:
        source = iter(texts)
        while chunk := list(itertools.islice(source, CHUNK)):
            encodings = self.reference.encode_batch_fast(chunk)
            for text, encoding, (ids, types) in zip(chunk, encodings, self.native(chunk), strict=True):
                # The program gives a text of no tokens one of padding.
                if encoding.ids and (ids, types) != (encoding.ids, encoding.type_ids):
                    yield Mismatch(text=text, expected=encoding.ids, found=ids)

    def native(self, texts: list[str]) -> Iterator[tuple[list[int], list[int]]]:
        raw = [text.encode() for text in texts]
        done = subprocess.run(
            [self.tool, self.table, str(self.max_length)],
            input=b"".join(struct.pack("<I", len(each)) + each for each in raw),
            capture_output=True,
            check=True,
        )
        numbers = memoryview(done.stdout).cast("I")
        at = 0
        while at < len(numbers):
            count = numbers[at]
            yield (
                numbers[at + 1 : at + 1 + count].tolist(),
                numbers[at + 1 + count : at + 1 + 2 * count].tolist(),
            )
            at += 1 + 2 * count

    def texts(self, count: int, *, seed: int) -> Iterator[str]:
        """Fuzz texts, with words of this vocabulary and its special tokens in them."""
        return fuzz_texts_for(self.reference, count, seed=seed)


def pair_of(document: str, tool: Path, table: Path, *, max_length: int = 128) -> Pair:
    """Compile a tokenizer.json (without truncation and padding) into ``table``."""
    table.write_bytes(compile_tokenizer(document))
    reference = Tokenizer.from_str(document)
    reference.enable_truncation(max_length)
    return Pair(reference=reference, tool=tool, table=table, max_length=max_length)
