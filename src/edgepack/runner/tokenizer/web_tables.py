"""Tokenizers as tables for the web: WordPiece's vocabulary as text in the order of its ids, the rest as the native runner has it.

A trie is what a program wants that uses a file in place; JavaScript makes a map of its own, and the plain list is a
quarter smaller under brotli: 91 kB instead of 122 for BERT's vocabulary.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from edgepack.models.read.tokenizer import pad_id_of
from edgepack.runner.tokenizer.added_tokens import LEFT, RIGHT, added_tokens, flags_of, word_sections
from edgepack.runner.tokenizer.compile import BY_CODE_POINT_STEP, normalizer_tables, piece_tables, steps_of
from edgepack.runner.tokenizer.sections import pack_sections, u32
from edgepack.runner.tokenizer.template import template_of
from edgepack.runner.tokenizer.unigram import unigram_sections
from edgepack.runner.tokenizer.unsupported import unsupported

NORMALIZED = 8
CONTINUED = "\t"
"""Stands for the prefix of pieces inside words; no token has it."""


def wordpiece_table(text: str) -> bytes:
    """The table for a tokenizer.json without truncation and padding.

    Raises ``UnsupportedModelError`` for another model than WordPiece, and for components that have no table.
    """
    document = json.loads(text)
    tokenizer = Tokenizer.from_str(text)
    model = document["model"]
    if "max_input_chars_per_word" not in model:
        raise unsupported("model", str(model.get("type")))
    unknown = model["vocab"].get(model["unk_token"])
    if unknown is None:
        raise unsupported("vocabulary without", model["unk_token"])
    sections = normalizer_tables(document.get("normalizer"))
    if sections.pop("steps", u32([BY_CODE_POINT_STEP])) != u32([BY_CODE_POINT_STEP]):
        raise unsupported("normalizer", "other than by code point")
    prefix = model["continuing_subword_prefix"]
    settings = u32([unknown, model["max_input_chars_per_word"], pad_id_of(tokenizer)])
    return pack_sections(
        {
            "model": b"wordlist" + settings,
            "prefix": prefix.encode(),
            "vocab": vocabulary_text(model["vocab"], prefix),
            "added": json.dumps(added_rows(document, tokenizer), ensure_ascii=False).encode(),
            "template": template_of(document.get("post_processor"), tokenizer),
            **word_sections(document),
            **sections,
            **piece_tables(document.get("pre_tokenizer")),
        }
    )


def vocabulary_text(vocabulary: Mapping[str, int], prefix: str) -> bytes:
    """A token a line, the line's number being its id; an id without a token is an empty line."""
    if any(letter in token for token in vocabulary for letter in ("\n", CONTINUED)):
        raise unsupported("vocabulary with", "white space in tokens")
    by_id = {number: token for token, number in vocabulary.items()}
    if len(by_id) != len(vocabulary) or max(by_id) > 4 * len(by_id):
        raise unsupported("vocabulary with", "two tokens of one id, or ids far apart")
    lines = (by_id.get(number, "") for number in range(max(by_id) + 1))
    inside = (
        CONTINUED + line[len(prefix) :] if prefix and line.startswith(prefix) else line for line in lines
    )
    return "\n".join(inside).encode()


def added_rows(document: Mapping[str, Any], tokenizer: Tokenizer) -> list[tuple[str, int, int]]:
    """Content, id and flags of each added token. Raises ``UnsupportedModelError`` for white space that takes more beside it: which is the
    token, the page would find otherwise.
    """
    rows = []
    for content, token in added_tokens(document, tokenizer):
        if content.isspace() and flags_of(token) & (LEFT | RIGHT):
            raise unsupported("added token", "of white space that takes white space beside it")
        rows.append((content, token["id"], flags_of(token) | NORMALIZED * token["normalized"]))
    return rows


def unigram_table(text: str) -> bytes:
    """Table of Unigram: what the native program's table has, with added tokens as JavaScript finds them.

    Raises ``UnsupportedModelError`` for another model than Unigram, and for components that have no table.
    """
    document = json.loads(text)
    if document["model"].get("type") != "Unigram":
        raise unsupported("model", str(document["model"].get("type")))
    tokenizer = Tokenizer.from_str(text)
    splitter = document.get("pre_tokenizer")
    splits = steps_of(splitter, "pretokenizers") if splitter else []
    return pack_sections(
        {
            **unigram_sections(document, splits, tokenizer),
            "added": json.dumps(added_rows(document, tokenizer), ensure_ascii=False).encode(),
            "template": template_of(document.get("post_processor"), tokenizer),
            **word_sections(document),
            **normalizer_tables(document.get("normalizer")),
        }
    )
