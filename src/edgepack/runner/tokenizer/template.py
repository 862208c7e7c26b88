"""What a post-processor puts around a text: special tokens before and after it, each with a type."""

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
