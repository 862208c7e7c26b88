"""A model's tokenizer for runners in other languages, and the texts that they are compared on."""

from __future__ import annotations

import json
from dataclasses import dataclass

from edgepack.errors import UnsupportedModelError
from edgepack.records.model import ModelSource

LONGEST_COMPARED = 128
"""Tokens: where cutting is tried, too."""
SEED = 20


@dataclass(frozen=True, kw_only=True)
class TokenizerTables:
    """What a program needs to tokenize as the model's tokenizer does."""

    document: str
    """tokenizer.json, without truncation and padding."""
    wordpiece: bytes | None
    """The table of a WordPiece tokenizer, as ``wordpiece_table`` says; None for all others."""
    template: tuple[int, ...]
    """How many special tokens before, how many after, the text's type, then (id, type) of each."""
    pad_id: int
    size: int
    """One more than the highest id."""
    boundary: str | None
    """A pattern of the white space at which a long text may be cut, as ``frozen/cut.py`` says; None where none is known."""


def tokenizer_tables(source: ModelSource) -> TokenizerTables:
    """A model's tokenizer for a runner that is not Python: tokenizer.json, WordPiece as a table, special tokens.

    Raises ``UnsupportedModelError`` for a post-processor that is no template.
    """
    import struct

    from tokenizers import Tokenizer

    from edgepack.models.read.tokenizer import minimal_json
    from edgepack.runner.frozen.cut import PLAIN_SPACE, SPACE, boundary_of
    from edgepack.runner.native.compile_tokenizer import pad_id_of
    from edgepack.runner.native.template import template_of
    from edgepack.runner.wordpiece_table import wordpiece_table

    text = minimal_json(source)
    tokenizer = Tokenizer.from_str(text)
    template = template_of(json.loads(text).get("post_processor"), tokenizer)
    boundary = boundary_of(json.loads(text))
    try:
        table = wordpiece_table(text)
    except UnsupportedModelError:
        table = None
    return TokenizerTables(
        document=text,
        wordpiece=table,
        template=struct.unpack(f"<{len(template) // 4}I", template),
        pad_id=pad_id_of(tokenizer),
        size=max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1,
        boundary=boundary if boundary in (SPACE, PLAIN_SPACE) else None,
    )


def tokenizer_cases(source: ModelSource, count: int) -> list[tuple[str, list[int], list[int]]]:
    """Texts with the ids and types that the real tokenizer gives them.

    The verification texts, then ``count`` strange ones with words and special tokens of this vocabulary in them; cut at
    the model's length or at 128 tokens, whichever is less.
    """
    from importlib.resources import files

    from edgepack.models.read.tokenizer import load_tokenizer
    from edgepack.verify.fuzz_texts import strange_texts

    tokenizer = load_tokenizer(source)
    tokenizer.enable_truncation(min(source.max_length, LONGEST_COMPARED))
    shown = (word.replace("##", "").replace("▁", " ") for word in sorted(tokenizer.get_vocab()))
    texts = (files("edgepack.verify") / "data/texts.txt").read_text(encoding="utf-8").split("\n")
    words = [*filter(None, shown), *" ".join(texts).split()]
    specials = [token["content"] for token in json.loads(tokenizer.to_str())["added_tokens"]]
    texts += strange_texts(count, seed=SEED, words=words, specials=specials)
    encodings = tokenizer.encode_batch_fast(texts)
    return [(text, encoding.ids, encoding.type_ids) for text, encoding in zip(texts, encodings, strict=True)]
