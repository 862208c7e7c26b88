"""What a post-processor puts around a text, or around and between two: special tokens, each with a type."""

from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from edgepack.errors import UnsupportedModelError
from edgepack.runner.tokenizer.sections import u32
from edgepack.runner.tokenizer.unsupported import unsupported

Special = tuple[int, int]


def template_of(processor: Mapping[str, Any] | None, tokenizer: Tokenizer) -> bytes:
    """Section ``template``: how many before, how many after, the text's type, then (id, type) of each."""
    before, after, kind = _template(processor)
    listed = [number for special in (*before, *after) for number in special]
    # Told apart from what the library does: the numbers of a text of no tokens.
    empty = tokenizer.encode("", add_special_tokens=True)
    if list(zip(empty.ids, empty.type_ids, strict=True)) != [*before, *after]:
        raise _unsupported(str(processor and processor["type"]))
    return u32([len(before), len(after), kind, *listed])


def pair_template_of(processor: Mapping[str, Any] | None, tokenizer: Tokenizer) -> bytes:
    """Section ``pair``: how many special tokens before, between and after two texts, the texts' types, then (id, type) of each."""
    parts, kinds = _pair(processor)
    listed = [number for part in parts for special in part for number in special]
    empty = tokenizer.encode("", "", add_special_tokens=True)
    if list(zip(empty.ids, empty.type_ids, strict=True)) != [special for part in parts for special in part]:
        raise _unsupported(f"{processor and processor['type']} of pairs")
    return u32([*map(len, parts), *kinds, *listed])


def _pair(processor: Mapping[str, Any] | None) -> tuple[list[list[Special]], tuple[int, int]]:
    if processor is None or processor["type"] == "ByteLevel":
        return [[], [], []], (0, 1)
    if processor["type"] == "BertProcessing":
        first, last = processor["cls"][1], processor["sep"][1]
        return [[(first, 0)], [(last, 0)], [(last, 1)]], (0, 1)
    if processor["type"] == "RobertaProcessing":
        first, last = processor["cls"][1], processor["sep"][1]
        return [[(first, 0)], [(last, 0), (last, 0)], [(last, 0)]], (0, 0)
    if processor["type"] == "TemplateProcessing":
        return _of_pair_template(processor)
    if processor["type"] == "Sequence":
        working = [step for step in processor["processors"] if step["type"] != "ByteLevel"]
        if len(working) <= 1:
            return _pair(working[0] if working else None)
    raise _unsupported(processor["type"])


def _of_pair_template(processor: Mapping[str, Any]) -> tuple[list[list[Special]], tuple[int, int]]:
    parts: list[list[Special]] = [[]]
    kinds: list[int] = []
    for piece in processor["pair"]:
        if "Sequence" in piece:
            if piece["Sequence"]["id"] != "AB"[len(kinds) : len(kinds) + 1]:
                raise _unsupported("TemplateProcessing of pairs in another order")
            kinds.append(piece["Sequence"]["type_id"])
            parts.append([])
        else:
            special = piece["SpecialToken"]
            ids = processor["special_tokens"][special["id"]]["ids"]
            parts[-1].extend((number, special["type_id"]) for number in ids)
    if len(kinds) != 2:
        raise _unsupported("TemplateProcessing of pairs without both texts")
    return parts, (kinds[0], kinds[1])


def _template(processor: Mapping[str, Any] | None) -> tuple[list[Special], list[Special], int]:
    if processor is None or processor["type"] == "ByteLevel":
        return [], [], 0
    if processor["type"] in ("BertProcessing", "RobertaProcessing"):
        return [(processor["cls"][1], 0)], [(processor["sep"][1], 0)], 0
    if processor["type"] == "TemplateProcessing":
        return _of_template(processor)
    if processor["type"] == "Sequence":
        working = [step for step in processor["processors"] if step["type"] != "ByteLevel"]
        if len(working) <= 1:
            return _template(working[0] if working else None)
    raise _unsupported(processor["type"])


def _of_template(processor: Mapping[str, Any]) -> tuple[list[Special], list[Special], int]:
    sides: tuple[list[Special], list[Special]] = ([], [])
    kind: int | None = None
    for piece in processor["single"]:
        if "Sequence" in piece:
            if kind is not None:
                raise _unsupported("TemplateProcessing that repeats the text")
            kind = piece["Sequence"]["type_id"]
        else:
            special = piece["SpecialToken"]
            ids = processor["special_tokens"][special["id"]]["ids"]
            sides[kind is not None].extend((number, special["type_id"]) for number in ids)
    if kind is None:
        raise _unsupported("TemplateProcessing without the text")
    return *sides, kind


def _unsupported(name: str) -> UnsupportedModelError:
    return unsupported("post_processor", name)
