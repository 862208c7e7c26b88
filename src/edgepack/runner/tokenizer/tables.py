"""A model's tokenizer for runners in other languages."""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass

from tokenizers import Tokenizer

from edgepack.errors import UnsupportedModelError
from edgepack.models.read.tokenizer import minimal_json, pad_id_of
from edgepack.records.model import ModelSource
from edgepack.runner.tokenizer.template import template_of
from edgepack.runner.tokenizer.truncation import PLAIN_SPACE, SPACE, boundary_of
from edgepack.runner.tokenizer.web_tables import unigram_table, wordpiece_table


@dataclass(frozen=True, kw_only=True)
class TokenizerTables:
    """Tables and ids by which a program tokenizes as the model's tokenizer does."""

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
