"""Long texts are cut before they are tokenized: the library encodes all of a text, a hundred bytes a character, and
only then keeps the first ``max_length`` tokens.

A cut is right when the tokens of the part before it are the first tokens of the whole text. So it is with the
tokenizers that are known here, at a **boundary**: a place where their pre-tokenizer splits whatever stands around it, and
over which no step of their normalizer looks. Then, when the part alone fills ``max_length``, nothing behind it counts;
when it does not, a part twice as long is tried, and at last the whole text.

- BERT's (``BertPreTokenizer``): before white space, before ASCII punctuation (but ``<=>``, which compose with a stroke
  that follows), and beside an ideograph that the normalizer sets apart. These normalizers work character by character,
  but for decomposition and composition, which move nothing over a boundary: what follows it begins with a starter that
  composes with nothing before it.
- Byte-level (GPT-2's pattern) and those that split at white space (``WhitespaceSplit``, ``Metaspace``): before white
  space that follows something else.

What holds no boundary for long is squeezed for a WordPiece with BERT's splitter: a word of more characters than it takes
(100) is unknown however many more there are, and white space divides however much of it there is.

An added token may span a boundary of the first kind, so that places near one are passed over; of the second kind only
if it holds white space itself, and then the tokenizer counts as unknown.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CHARACTERS_A_TOKEN = 16
"""Room for a text's first try; words of most languages have less."""
FIRST = 4096
WINDOW = 8192
"""Characters in which a boundary is looked for."""
SPACE = r"(?<=\S)(?=[ \n\t])"
PLAIN_SPACE = r"(?<=\S)(?= )"
BERT = r"[ \n\t\r!-/:;?@\[-`{-~]"
IDEOGRAPH = "[\u3400-\u4dbf\u4e00-\u9fff]"
BERT_NORMALIZERS = frozenset({"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"})
NORMALIZERS = BERT_NORMALIZERS | {"Precompiled", "Prepend", "Strip"}
"""Those that look at white space as they look at anything else, one character or one cluster after the other."""


class TextTruncator:
    """Cuts a text as far as that leaves its first ``max_length`` tokens as they are."""

    def __init__(self, document: dict[str, Any], *, max_length: int) -> None:
        pattern = boundary_of(document)
        self._boundary = re.compile(pattern) if pattern else None
        added = [entry["content"] for entry in document.get("added_tokens") or ()]
        self._reach = max(map(len, added), default=0)
        self._added = re.compile("|".join(map(re.escape, added))) if added else None
        self._long_word = long_word_of(document, added) if self._boundary else None
        self._max_length = max_length
        self.first = max(FIRST, CHARACTERS_A_TOKEN * max_length)
        """Texts that are not longer are never cut."""

    def truncate(self, text: str, count: Callable[[str], int]) -> str:
        """The part of a text that gives its first tokens; ``count`` says how many a text has, ``max_length`` at most."""
        if self._long_word and len(text) > self.first:
            text = self._long_word.sub(squeezed, text)
        size = self.first
        while self._boundary is not None and size < len(text):
            head = self._head(text, size)
            if head and count(head) == self._max_length:
                return head
            size *= 2
        return text

    def _head(self, text: str, size: int) -> str:
        """The text up to the last boundary before ``size``; empty where there is none within ``WINDOW``."""
        assert self._boundary is not None
        places = [found.start() for found in self._boundary.finditer(text, max(1, size - WINDOW), size)]
        for place in reversed(places):
            around = text[max(0, place - self._reach) : place + self._reach]
            if self._added is None or not self._added.search(around):
                return text[:place]
        return ""


def boundary_of(document: dict[str, Any]) -> str | None:
    """A pattern that matches where a text may be cut; None for a tokenizer that is not known."""
    normalizers = parts(document.get("normalizer"), "normalizers")
    splitters = parts(document.get("pre_tokenizer"), "pretokenizers")
    kinds = [step["type"] for step in splitters]
    added = document.get("added_tokens") or ()
    if kinds == ["BertPreTokenizer"]:
        if any(step["type"] not in BERT_NORMALIZERS for step in normalizers):
            return None
        if any(entry.get("normalized", True) for entry in added):
            return None
        apart = any(step.get("handle_chinese_chars") for step in normalizers)
        return rf"{BERT}|{IDEOGRAPH}|(?<={IDEOGRAPH})(?=[\u3041-\u30fa])" if apart else BERT
    if any(re.search(r"\s", entry["content"]) for entry in added):
        return None
    return space_of(splitters, kinds) if all(map(is_plain, normalizers)) else None


def squeezed(found: re.Match[str]) -> str:
    return (found[1] or "") + (found[2] or "")


def long_word_of(document: dict[str, Any], added: list[str]) -> re.Pattern[str] | None:
    """A pattern whose matches can be replaced by their two groups, for a WordPiece that splits as BERT does."""
    model, splitter = document.get("model") or {}, document.get("pre_tokenizer") or {}
    if model.get("type") != "WordPiece" or splitter.get("type") != "BertPreTokenizer":
        return None
    if any(re.fullmatch(r"[A-Za-z0-9 \n\t\r]*", content) for content in added):
        return None
    kept = int(model.get("max_input_chars_per_word", 100)) + 1
    return re.compile(rf"([A-Za-z0-9]{{{kept}}})[A-Za-z0-9]+([A-Za-z0-9])|[ \n\t\r]+(?=[ \n\t\r])")


def space_of(splitters: list[dict[str, Any]], kinds: list[str]) -> str | None:
    """White space at which a pre-tokenizer always splits."""
    if kinds == ["ByteLevel"] and splitters[0].get("use_regex", True):
        return SPACE
    if kinds[:1] == ["WhitespaceSplit"]:
        return SPACE
    if kinds == ["Metaspace"] and splitters[0].get("split", True):
        return PLAIN_SPACE
    return None


def is_plain(step: dict[str, Any]) -> bool:
    collapse = step.get("pattern") == {"Regex": " {2,}"} and step.get("content") in (" ", "\u2581")
    return step["type"] in NORMALIZERS or (step["type"] == "Replace" and collapse)


def parts(step: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    """A step, or those of a sequence, sequences within it too."""
    if step is None:
        return []
    if step["type"] != "Sequence":
        return [step]
    return [inner for entry in step[name] for inner in parts(entry, name)]
