"""Added tokens: found in the text before anything else is done to it, or after it was normalized."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, models

from edgepack.runner.tokenizer.code_point_tables import two_stage
from edgepack.runner.tokenizer.code_points import LIMIT, characters, runs
from edgepack.runner.tokenizer.sections import u32
from edgepack.runner.tokenizer.trie import build_trie

LEFT, RIGHT, SINGLE = 1, 2, 4
"""The token takes the white space before it, after it; it is none beside a letter of a word."""
ASKED = "\0"
"""A token that is no letter of a word."""


def added_tokens(
    document: Mapping[str, Any], tokenizer: Tokenizer
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Texts of added tokens, and the tokens; of two that read alike, the library finds the special one, which it lists first."""
    found = set()
    for token in sorted(document.get("added_tokens") or (), key=lambda token: not token["special"]):
        content = token["content"]
        if token["normalized"] and tokenizer.normalizer is not None:
            content = tokenizer.normalizer.normalize_str(content)
        if content and (content, token["normalized"]) not in found:
            found.add((content, token["normalized"]))
            yield content, token


def added_sections(document: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, bytes]:
    """Sections ``added`` and ``addednrm`` (tries: content → number), ``addedids`` (id, flags by number) and, where a token stands
    alone, ``words``."""
    raw: dict[bytes, int] = {}
    normalized: dict[bytes, int] = {}
    table: list[int] = []
    for content, token in added_tokens(document, tokenizer):
        (normalized if token["normalized"] else raw)[content.encode()] = len(table) // 2
        table += [token["id"], flags_of(token)]
    return {
        "added": build_trie(raw),
        "addednrm": build_trie(normalized),
        "addedids": u32(table),
        **word_sections(document),
    }


def flags_of(token: Mapping[str, Any]) -> int:
    return int(LEFT * token["lstrip"] | RIGHT * token["rstrip"] | SINGLE * token["single_word"])


def word_sections(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Section ``words``: the code points that words are made of; none where no token stands alone."""
    if not any(token["single_word"] for token in document.get("added_tokens") or ()):
        return {}
    return {"words": two_stage(word_points(), width=1)}


@cache
def word_points() -> bytes:
    """For each code point whether the library takes it for a letter of a word, found by asking it."""
    asked = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    asked.add_tokens([AddedToken(ASKED, single_word=True, normalized=False)])
    found = asked.token_to_id(ASKED)
    kinds = bytearray(LIMIT)
    for run in runs(characters()):
        encoding = asked.encode("".join(f"{letter}{ASKED} " for letter in run))
        alone = {
            first
            for number, (first, _) in zip(encoding.ids, encoding.offsets, strict=True)
            if number == found
        }
        for index, letter in enumerate(run):
            kinds[ord(letter)] = 3 * index + 1 not in alone
    return bytes(kinds)
