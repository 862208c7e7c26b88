"""The rule by which the program makes batches (csrc/embedder/embedder.cc), for what has to make the same ones."""

from collections.abc import Iterator, Sequence

BATCH_TOKENS, PADDING_SHARE = 64, 64


def batches(lengths: Sequence[int], size: int, *, tokens: int) -> Iterator[list[int]]:
    """Indices of texts of like length, the longest first: ``size`` texts at most, and so many tokens with their padding.

    Beyond ``BATCH_TOKENS`` a batch has hardly any padding; it has one text at least.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        end = start + 1
        longest, known = (max(1, lengths[order[start]]),) * 2
        while end < len(order) and end - start < size:
            known += lengths[order[end]]
            padded = (end - start + 1) * longest
            if padded > tokens or (padded > BATCH_TOKENS and (padded - known) * PADDING_SHARE > padded):
                break
            end += 1
        yield order[start:end]
        start = end
