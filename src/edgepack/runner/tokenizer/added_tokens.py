"""Added tokens: found in the text before anything else is done to it, or after it was normalized."""

from collections.abc import Iterator, Mapping
from typing import Any

from tokenizers import Tokenizer

from edgepack.runner.tokenizer.sections import u32
from edgepack.runner.tokenizer.trie import build_trie
from edgepack.runner.tokenizer.unsupported import unsupported

LEFT, RIGHT = 1, 2
"""The token takes the white space before it, after it."""


def added_tokens(
    document: Mapping[str, Any], tokenizer: Tokenizer
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What each token reads as, and the token; of two that read alike, the library finds the special one, which it lists first."""
    found = set()
    for token in sorted(document.get("added_tokens") or (), key=lambda token: not token["special"]):
        if token["single_word"]:
            raise unsupported("single_word tokens, such as", token["content"])
        content = token["content"]
        if token["normalized"] and tokenizer.normalizer is not None:
            content = tokenizer.normalizer.normalize_str(content)
        if content and (content, token["normalized"]) not in found:
            found.add((content, token["normalized"]))
            yield content, token


def added_sections(document: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, bytes]:
    """Sections ``added`` and ``addednrm`` (tries: content → number) and ``addedids`` (id, flags by number)."""
    raw: dict[bytes, int] = {}
    normalized: dict[bytes, int] = {}
    table: list[int] = []
    for content, token in added_tokens(document, tokenizer):
        (normalized if token["normalized"] else raw)[content.encode()] = len(table) // 2
        table += [token["id"], LEFT * token["lstrip"] | RIGHT * token["rstrip"]]
    return {"added": build_trie(raw), "addednrm": build_trie(normalized), "addedids": u32(table)}
