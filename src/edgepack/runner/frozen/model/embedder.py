"""Texts to vectors: tokenizer, batches, model."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Iterator, Sequence

from ..base.bundle import Bundle
from ..base.errors import RuntimeFailure, UsageError
from ..base.load_errors import TRY_SELF_TEST
from ..base.processor import require_processor
from ..base.threads import on_threads
from ..tokenizer.open import open_tokenizer
from .loaded import CPU, LoadedModel
from .matryoshka import MatryoshkaTruncation
from .ort import OrtError

BATCH_SIZE = 8
BATCH_TOKENS = 64
"""A batch is as many texts, and fewer where they are long: more tokens together are hardly faster, and take more memory."""
PADDING_SHARE = 64
"""Beyond ``BATCH_TOKENS``, padding may be this share of a batch at most."""
MAX_THREADS = 4


class Embedder:
    """A bundle's model, loaded. Raises ``BundleError`` or ``RuntimeFailure``, and ``UsageError`` for what it cannot do.

    ``dimension`` is that of the vectors that come out. Batches go side by side, each on a thread of its own, which is
    nearly twice as fast as threads that share each operator; so do these only for texts that come ``alone``.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        batch_size: int | None = None,
        threads: int | None = None,
        max_length: int | None = None,
        prefix: str | None = None,
        dimension: int | None = None,
        allow_cpu: bool = False,
        alone: bool = False,
    ) -> None:
        require_processor(bundle)
        threads = threads or min(MAX_THREADS, len(os.sched_getaffinity(0)))
        self.threads = threads
        self._prefix = prefix_of(bundle, prefix) if prefix else ""
        self._truncate = MatryoshkaTruncation(bundle, dimension) if dimension else None
        self.dimension = dimension or bundle.dimension
        length = length_within(bundle, max_length) if max_length else bundle.max_length
        self.model = LoadedModel(bundle, threads if alone else 1, allow_cpu=allow_cpu)
        # Where a text's vector depends on its neighbours in the batch, a text goes alone.
        self.batch_size = batch_size or (1 if bundle.batch_dependent else self.model.batch_size or BATCH_SIZE)
        if 0 < self.model.largest_batch < self.batch_size:
            raise UsageError(
                f"--batch-size {self.batch_size}: the bundle's engine takes {self.model.largest_batch} texts at most"
            )
        # No more tokens than the longest text has: then no batch takes more memory than that text alone, for what attention
        # takes (rows x length x length) is no more either. A GPU wants its batches whole.
        tokens = max(BATCH_TOKENS, length) if batch_size else BATCH_TOKENS
        self._batch_tokens = tokens if self.model.provider == CPU and not self.model.batch_size else None
        # A GPU shares each operator among its own threads.
        self.workers = 1 if alone or self.model.provider != CPU else threads
        self._session = self.model.session
        if self._session.output_dimension not in (None, bundle.dimension):
            raise RuntimeFailure(
                f"the model has {self._session.output_dimension} dimensions, the manifest says {bundle.dimension}",
                TRY_SELF_TEST,
            )
        # After the model, whose loading needs most: what it gives back is enough for the tokenizer.
        self.tokenizer = open_tokenizer(bundle, max_length=length, threads=threads)

    def embed(self, texts: Sequence[str]) -> list[array[float]]:
        """Vectors, float32 [dimension] each, in the order of the texts."""
        if self._prefix:
            texts = [self._prefix + text for text in texts]
        return self.embed_tokens(self.tokenizer.encode(texts))

    def embed_tokens(
        self, encoded: Sequence[tuple[list[int], list[int]]], *, workers: int | None = None
    ) -> list[array[float]]:
        """The same for token ids and types, as ``HuggingFaceTokenizer.encode`` gives them; on so many threads, or all."""
        vectors: list[array[float]] = [array("f")] * len(encoded)
        lengths = [len(ids) for ids, _ in encoded]
        todo = list(batches(lengths, self.batch_size, tokens=self._batch_tokens))
        todo.reverse()  # for they are taken from the end

        def work() -> None:
            while todo:
                try:
                    batch = todo.pop()
                except IndexError:  # another thread was quicker
                    return
                try:
                    made = self.embed_batch([encoded[index] for index in batch])
                except BaseException:
                    todo.clear()
                    raise
                for index, vector in zip(batch, made, strict=True):
                    vectors[index] = vector

        on_threads(min(workers or self.workers, len(todo)), work)
        return vectors

    def embed_batch(self, batch: list[tuple[list[int], list[int]]]) -> list[array[float]]:
        """The same for one batch, run as it is."""
        ids, mask, types = pad(batch, self.tokenizer.pad_id)
        try:
            vectors = self._session.run(ids, mask, types)
        except OrtError as error:
            raise self.model.failure(error) from error
        if not all(math.isfinite(math.fsum(vector)) for vector in vectors):
            raise RuntimeFailure("the model gave a vector with numbers that are not finite", TRY_SELF_TEST)
        return [self._truncate(vector) for vector in vectors] if self._truncate else vectors

    def finish(self) -> None:
        """Let a provider save what it made for this GPU, which it does when its session ends: the process itself just ends."""
        if self.model.cache:
            self.close()

    def close(self) -> None:
        self._session.close()


def prefix_of(bundle: Bundle, kind: str) -> str:
    """What goes before a ``query`` or a ``passage``. Raises ``UsageError`` where the model knows no such thing."""
    if kind not in bundle.prefixes:
        raise UsageError(
            f"{bundle.value('model', 'name')} has no {kind} prefix",
            "without a prefix, texts go to the model unchanged",
        )
    return bundle.prefixes[kind]


def length_within(bundle: Bundle, tokens: int) -> int:
    if tokens > bundle.max_length:
        raise UsageError(f"--max-length {tokens}: the model takes {bundle.max_length} tokens at most")
    return tokens


def batches(lengths: Sequence[int], size: int, *, tokens: int | None = None) -> Iterator[list[int]]:
    """Indices of texts of like length, the longest first: what is padded is computed for nothing.

    ``size`` texts at most. With ``tokens``, no more than so many with their padding, and beyond ``BATCH_TOKENS`` hardly any
    padding; one text at least.
    """
    order = (
        sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
        if size > 1
        else range(len(lengths))
    )
    start = 0
    while start < len(order):
        end = start + 1
        longest, known = (max(1, lengths[order[start]]),) * 2
        while end < len(order) and end - start < size:
            known += lengths[order[end]]
            padded = (end - start + 1) * longest
            worth = padded <= BATCH_TOKENS or (padded - known) * PADDING_SHARE <= padded
            if tokens and (padded > tokens or not worth):
                break
            end += 1
        yield list(order[start:end])
        start = end


def pad(
    batch: Sequence[tuple[list[int], list[int]]], pad_id: int
) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Ids, mask and types of a batch, each row as long as the longest."""
    longest = max(len(ids) for ids, _ in batch)
    gaps = [longest - len(ids) for ids, _ in batch]
    return (
        [ids + [pad_id] * gap for (ids, _), gap in zip(batch, gaps, strict=True)],
        [[1] * (longest - gap) + [0] * gap for gap in gaps],
        [types + [0] * gap for (_, types), gap in zip(batch, gaps, strict=True)],
    )


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Cosine of the angle between two vectors; 0 when one of them is all zeros."""
    product = math.fsum(a * b for a, b in zip(first, second, strict=True))
    norms = math.sqrt(math.fsum(a * a for a in first) * math.fsum(b * b for b in second))
    return product / norms if norms else 0.0
