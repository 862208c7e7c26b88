"""Texts with the tokens that a runner of another language has to make of them."""

from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.records.model import ModelSource
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.texts.fuzz import fuzz_texts_for

LONGEST_COMPARED = 128
"""Tokens: so that truncation is tried, too."""
SEED = 20


@panics_reported()
def tokenizer_cases(source: ModelSource, count: int) -> list[tuple[str, list[int], list[int]]]:
    """Texts with the ids and types that the real tokenizer gives them.

    The verification texts, then ``count`` fuzz texts; truncated to the model's length or to 128 tokens, whichever is
    less.
    """
    tokenizer = load_tokenizer(source)
    tokenizer.enable_truncation(min(source.max_length, LONGEST_COMPARED))
    texts = [*verification_texts(), *fuzz_texts_for(tokenizer, count, seed=SEED)]
    encodings = tokenizer.encode_batch_fast(texts)
    return [(text, encoding.ids, encoding.type_ids) for text, encoding in zip(texts, encodings, strict=True)]
