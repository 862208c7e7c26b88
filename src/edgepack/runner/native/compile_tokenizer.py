"""tokenizer.json, compiled: what the native program's tokenizer maps and uses in place.

A component that the native tokenizer does not have is refused by name; nothing is approximated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgepack.errors import UnsupportedModelError
from edgepack.runner.native.added import added_sections
from edgepack.runner.native.charmap import normalizer_sections, two_stage
from edgepack.runner.native.container import pack_sections, u32
from edgepack.runner.native.probing import piece_kinds
from edgepack.runner.native.template import template_of
from edgepack.runner.native.trie import build_trie

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BY_CODE_POINT = ("BertNormalizer", "Lowercase", "NFD", "NFKD", "StripAccents")
PAD_NAMES = ("[PAD]", "<pad>", "<|padding|>", "<|endoftext|>")
"""As the frozen program looks for them: any id would do, for it is masked."""


def compile_tokenizer(text: str) -> bytes:
    """The table file for a tokenizer.json without truncation and padding.

    Raises ``UnsupportedModelError`` naming the component that the native tokenizer does not have.
    """
    from tokenizers import Tokenizer

    document = json.loads(text)
    tokenizer = Tokenizer.from_str(text)
    kind = _kind(document["model"])
    if kind != "WordPiece":
        raise unsupported("model", kind)
    sections = _wordpiece(document, tokenizer)
    sections |= added_sections(document, tokenizer)
    template = template_of(document.get("post_processor"), tokenizer)
    return pack_sections({"template": template, **sections})


def unsupported(part: str, name: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the native runner's tokenizer has no {part} {name}", hint='set runner = "pyinstaller" in [options]'
    )


def _kind(model: Mapping[str, Any]) -> str:
    """The model's type; documents of before 2020 do not say it of a WordPiece model."""
    return str(model.get("type") or ("WordPiece" if "max_input_chars_per_word" in model else "?"))


def _wordpiece(document: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, bytes]:
    model = document["model"]
    unknown = model["vocab"].get(model["unk_token"])
    if unknown is None:
        raise unsupported("vocabulary without", model["unk_token"])
    prefix = model["continuing_subword_prefix"].encode()
    pieces = _pieces(document.get("pre_tokenizer"), tokenizer)
    settings = u32([unknown, model["max_input_chars_per_word"], pad_id_of(tokenizer)])
    return {
        "model": b"wordpiec" + settings,
        "prefix": prefix,
        "vocab": build_trie({token.encode(): number for token, number in model["vocab"].items() if token}),
        **normalizer_tables(document.get("normalizer"), tokenizer),
        **pieces,
    }


def normalizer_tables(normalizer: Mapping[str, Any] | None, tokenizer: Tokenizer) -> dict[str, bytes]:
    """The tables of a normalizer, none when there is none."""
    if normalizer is None:
        return {}
    for step in steps_of(normalizer, "normalizers"):
        if step["type"] not in BY_CODE_POINT:
            raise unsupported("normalizer", step["type"])
    made = tokenizer.normalizer
    assert made is not None
    return normalizer_sections(made)


def _pieces(pre_tokenizer: Mapping[str, Any] | None, tokenizer: Tokenizer) -> dict[str, bytes]:
    if pre_tokenizer is None:
        raise unsupported("way without a", "pre_tokenizer")
    for step in steps_of(pre_tokenizer, "pretokenizers"):
        if step["type"] not in ("BertPreTokenizer", "WhitespaceSplit"):
            raise unsupported("pre_tokenizer", step["type"])
    return {"pieces": two_stage(piece_kinds(tokenizer.pre_tokenizer), width=1)}


def steps_of(component: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The steps of a ``Sequence``, and of sequences in it, or the component itself."""
    if component["type"] != "Sequence":
        return [component]
    return [step for part in component[key] for step in steps_of(part, key)]


def pad_id_of(tokenizer: Tokenizer) -> int:
    found = (tokenizer.token_to_id(name) for name in PAD_NAMES)
    return next((number for number in found if number is not None), 0)
