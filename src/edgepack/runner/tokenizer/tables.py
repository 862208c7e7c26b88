"""A model's tokenizer for runners in other languages, and the texts that they are compared on."""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass

from tokenizers import Tokenizer

from edgepack.errors import UnsupportedModelError
from edgepack.models.read.tokenizer import load_tokenizer, minimal_json
from edgepack.records.model import ModelSource
from edgepack.runner.frozen.tokenizer.hugging_face import pad_id_of
from edgepack.runner.frozen.tokenizer.truncation import PLAIN_SPACE, SPACE, boundary_of
from edgepack.runner.tokenizer.template import template_of
from edgepack.runner.tokenizer.unigram_table import unigram_table
from edgepack.runner.tokenizer.wordpiece_table import wordpiece_table
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.texts.fuzz import fuzz_texts_for

LONGEST_COMPARED = 128
"""Tokens: so that truncation is tried, too."""
SEED = 20


@dataclass(frozen=True, kw_only=True)
class TokenizerTables:
    """What a program needs to tokenize as the model's tokenizer does."""

    document: str
    """tokenizer.json, without truncation and padding."""
    wordpiece: bytes | None
    """The table of a WordPiece tokenizer, for edgepack's own runner in browsers; ``None`` for all others. Opaque: its layout, which
    begins with ``EDGETOK1``, changes with edgepack, and is not that of the native program. ``link_encoder`` brings a tokenizer of its own."""
    unigram: bytes | None
    """The same of a Unigram tokenizer; ``None`` for all others, and for normalizers that the page does not have."""
    template: tuple[int, ...]
    """Special tokens around a text: how many go before it, how many after it, the type of the text's own tokens, then id and type
    of each, those before first. For ``[CLS] text [SEP]`` of BERT: ``(1, 1, 0, 101, 0, 102, 0)``; none, as for static models: ``(0, 0, 0)``.
    """
    pad_id: int
    """The token that fills rows of a batch, masked; of a text without tokens it is the only one, and counts."""
    size: int
    """One more than the highest id that the tokenizer can give."""
    boundary: str | None
    """A regular expression for places where a long text may be cut before it is tokenized, so that the tokens of the part are the first
    of the whole text; ``None`` where no such places are known: tokenize all of it, and cut the tokens."""


def tokenizer_tables(source: ModelSource) -> TokenizerTables:
    """A model's tokenizer for a runner that is not Python: tokenizer.json, WordPiece as a table, special tokens.

    Raises ``UnsupportedModelError`` for a post-processor that is no template.
    """
    text = minimal_json(source)
    tokenizer = Tokenizer.from_str(text)
    template = template_of(json.loads(text).get("post_processor"), tokenizer)
    boundary = boundary_of(json.loads(text))
    return TokenizerTables(
        document=text,
        wordpiece=_table(wordpiece_table, text),
        unigram=_table(unigram_table, text),
        template=struct.unpack(f"<{len(template) // 4}I", template),
        pad_id=pad_id_of(tokenizer),
        size=max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1,
        boundary=boundary if boundary in (SPACE, PLAIN_SPACE) else None,
    )


def _table(make: Callable[[str], bytes], text: str) -> bytes | None:
    try:
        return make(text)
    except UnsupportedModelError:
        return None


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
