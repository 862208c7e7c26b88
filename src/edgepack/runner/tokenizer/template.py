"""What a post-processor puts around a text, or around and between two: special tokens, each with a type."""

from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from edgepack.errors import UnsupportedModelError
from edgepack.runner.tokenizer.sections import u32
from edgepack.runner.tokenizer.unsupported import unsupported

Special = tuple[int, int]
Template = tuple[list[list[Special]], list[int]]
"""Special tokens before, between and after the texts, and the texts' types."""


def template_of(processor: Mapping[str, Any] | None, tokenizer: Tokenizer) -> bytes:
    """Section ``template``: how many before, how many after, the text's type, then (id, type) of each."""
    return _section(processor, tokenizer, 1)


def pair_template_of(processor: Mapping[str, Any] | None, tokenizer: Tokenizer) -> bytes:
    """Section ``pair``: how many special tokens before, between and after two texts, the texts' types, then (id, type) of each."""
    return _section(processor, tokenizer, 2)


def _section(processor: Mapping[str, Any] | None, tokenizer: Tokenizer, texts: int) -> bytes:
    parts, kinds = _template(processor, texts)
    around = [special for part in parts for special in part]
    # Told apart from what the library does: the numbers of texts of no tokens.
    empty = tokenizer.encode("", None if texts == 1 else "", add_special_tokens=True)
    if list(zip(empty.ids, empty.type_ids, strict=True)) != around:
        raise _unsupported(str(processor and processor["type"]), texts)
    return u32([*map(len, parts), *kinds, *(number for special in around for number in special)])


def _template(processor: Mapping[str, Any] | None, texts: int) -> Template:
    if processor is None or processor["type"] == "ByteLevel":
        return [[] for _ in range(texts + 1)], [*range(texts)]
    if processor["type"] in ("BertProcessing", "RobertaProcessing"):
        (_, first), (_, last) = processor["cls"], processor["sep"]
        if texts == 1:
            return [[(first, 0)], [(last, 0)]], [0]
        if processor["type"] == "BertProcessing":
            return [[(first, 0)], [(last, 0)], [(last, 1)]], [0, 1]
        return [[(first, 0)], [(last, 0), (last, 0)], [(last, 0)]], [0, 0]
    if processor["type"] == "TemplateProcessing":
        return _of_pieces(processor, texts)
    if processor["type"] == "Sequence":
        working = [step for step in processor["processors"] if step["type"] != "ByteLevel"]
        if len(working) <= 1:
            return _template(working[0] if working else None, texts)
    raise _unsupported(processor["type"], texts)


def _of_pieces(processor: Mapping[str, Any], texts: int) -> Template:
    parts: list[list[Special]] = [[]]
    kinds: list[int] = []
    for piece in processor["single" if texts == 1 else "pair"]:
        if "Sequence" in piece:
            if piece["Sequence"]["id"] != "AB"[:texts][len(kinds) : len(kinds) + 1]:
                raise _unsupported("TemplateProcessing with texts twice or in another order", texts)
            kinds.append(piece["Sequence"]["type_id"])
            parts.append([])
        else:
            special = piece["SpecialToken"]
            ids = processor["special_tokens"][special["id"]]["ids"]
            parts[-1].extend((number, special["type_id"]) for number in ids)
    if len(kinds) != texts:
        raise _unsupported("TemplateProcessing without its texts", texts)
    return parts, kinds


def _unsupported(name: str, texts: int) -> UnsupportedModelError:
    return unsupported("post_processor", name if texts == 1 else f"{name} of pairs")
