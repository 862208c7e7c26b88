"""tokenizer.json, compiled: what the native program's tokenizer maps and uses in place.

A component that the native tokenizer does not have is refused by name; nothing is approximated.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Tokenizer

from edgepack.context import BuildContext
from edgepack.errors import UnsupportedModelError
from edgepack.files.store import digest_of_code
from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import pad_id_of
from edgepack.runner.tokenizer.added_tokens import added_sections
from edgepack.runner.tokenizer.byte_level_bpe import byte_level_sections
from edgepack.runner.tokenizer.character_bpe import character_sections
from edgepack.runner.tokenizer.code_point_tables import normalizer_sections, two_stage
from edgepack.runner.tokenizer.code_points import bare_tokenizer, compositions, piece_kinds
from edgepack.runner.tokenizer.sections import pack_sections, u32
from edgepack.runner.tokenizer.template import pair_template_of, template_of
from edgepack.runner.tokenizer.trie import build_trie
from edgepack.runner.tokenizer.unigram import precompiled_sections, unigram_sections
from edgepack.runner.tokenizer.unsupported import unsupported

BY_CODE_POINT = ("BertNormalizer", "Lowercase", "NFD", "NFKD", "StripAccents")
BY_CODE_POINT_STEP, PRECOMPILED_STEP, SQUEEZE_STEP = 1, 2, 3
STRIP_STEPS = {(True, False): 4, (False, True): 5, (True, True): 6}
"""As normalizer.cc numbers them."""
COMPOSE_STEP, SPACES_STEP, PREPEND_STEP = 7, 8, 9
COMPOSED = {"NFC": "NFD", "NFKC": "NFKD"}
"""Normal forms that are another one, composed."""
FILE = "tokenizer.bin"


@panics_reported()
def compile_tokenizer(text: str, *, pairs: bool = False) -> bytes:
    """The table file for a tokenizer.json without truncation and padding; with ``pairs``, two texts can be encoded together.

    Raises ``UnsupportedModelError`` naming the component that the native tokenizer does not have.
    """
    try:
        return _compiled(text, pairs=pairs)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The library reads more than it writes: a component by its fields alone, for one.
        raise UnsupportedModelError(
            f"tokenizer.json is not as the tokenizers library writes it: {type(error).__name__} {str(error)[:200]}",
            hint="load it with the tokenizers library and save it again",
        ) from error


def _compiled(text: str, *, pairs: bool) -> bytes:
    document = json.loads(text)
    tokenizer = Tokenizer.from_str(text)
    kind = _kind(document["model"])
    if kind == "WordPiece":
        sections = _wordpiece(document, tokenizer)
    elif kind == "BPE":
        make = character_sections if document["model"].get("byte_fallback") else byte_level_sections
        sections = make(document, pad_id_of(tokenizer))
        sections |= normalizer_tables(document.get("normalizer"))
    elif kind == "Unigram":
        steps = document.get("pre_tokenizer")
        splits = steps_of(steps, "pretokenizers") if steps else []
        sections = unigram_sections(document, splits, tokenizer)
        sections |= normalizer_tables(document.get("normalizer"))
    else:
        raise unsupported("model", kind)
    sections |= added_sections(document, tokenizer)
    template = template_of(document.get("post_processor"), tokenizer)
    if pairs:
        sections["pair"] = pair_template_of(document.get("post_processor"), tokenizer)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    return pack_sections({"template": template, "size": u32([size]), **sections})


def _kind(model: Mapping[str, Any]) -> str:
    """The model's type; documents of before 2020 do not say it of a WordPiece model."""
    return str(model.get("type") or ("WordPiece" if "max_input_chars_per_word" in model else "?"))


def _wordpiece(document: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, bytes]:
    model = document["model"]
    unknown = model["vocab"].get(model["unk_token"])
    if unknown is None:
        raise unsupported("vocabulary without", model["unk_token"])
    prefix = model["continuing_subword_prefix"].encode()
    pieces = piece_tables(document.get("pre_tokenizer"))
    settings = u32([unknown, model["max_input_chars_per_word"], pad_id_of(tokenizer)])
    return {
        "model": b"wordpiec" + settings,
        "prefix": prefix,
        "vocab": build_trie({token.encode(): number for token, number in model["vocab"].items() if token}),
        **normalizer_tables(document.get("normalizer")),
        **pieces,
    }


def normalizer_tables(normalizer: Mapping[str, Any] | None) -> dict[str, bytes]:
    """The normalizer's steps and their tables; none when there is none. Raises ``UnsupportedModelError``."""
    if normalizer is None:
        return {}
    sections: dict[str, bytes] = {}
    codes: list[int] = []
    by_code_point: list[Mapping[str, Any]] = []
    for step in steps_of(normalizer, "normalizers"):
        kind = COMPOSED.get(step["type"], step["type"])
        if kind in BY_CODE_POINT:
            if codes[-1:] != [BY_CODE_POINT_STEP]:
                codes.append(BY_CODE_POINT_STEP)
            by_code_point.append({**step, "type": kind})
            if step["type"] in COMPOSED:
                codes.append(COMPOSE_STEP)
                sections["compose"] = u32([number for pair in compositions() for number in pair])
        else:
            code, tables = _other_step(step)
            codes.append(code)
            if any(sections.get(name, table) != table for name, table in tables.items()):
                raise unsupported("two different normalizers", step["type"])
            sections |= tables
    if codes.count(BY_CODE_POINT_STEP) > 1:
        raise unsupported("normalizers around others:", by_code_point[-1]["type"])
    if by_code_point:
        sections |= _normalizer_sections(json.dumps(by_code_point))
    return {"steps": u32(codes), **sections}


def _other_step(step: Mapping[str, Any]) -> tuple[int, dict[str, bytes]]:
    """The code of a step that is not by code point, and its tables."""
    if step["type"] == "Precompiled":
        if not step["precompiled_charsmap"]:
            raise unsupported("normalizer Precompiled without", "a map")
        return PRECOMPILED_STEP, precompiled_sections(step["precompiled_charsmap"])
    if step["type"] == "Replace" and step["pattern"] == {"Regex": " {2,}"}:
        return SQUEEZE_STEP, {"squeeze": step["content"].encode()}
    if step["type"] == "Replace" and step["pattern"] == {"String": " "}:
        return SPACES_STEP, {"spaces": step["content"].encode()}
    if step["type"] == "Prepend":
        return PREPEND_STEP, {"prepend": step["prepend"].encode()}
    if step["type"] == "Strip" and (step["strip_left"] or step["strip_right"]):
        return STRIP_STEPS[step["strip_left"], step["strip_right"]], {}
    pattern = step.get("pattern")
    raise unsupported("normalizer", step["type"] + (f" {pattern}" if pattern else ""))


@lru_cache(maxsize=8)
def _normalizer_sections(steps: str) -> dict[str, bytes]:
    """Sections of the library's own normalizer, which is asked about every code point: once in a process."""
    made = bare_tokenizer(normalizer={"type": "Sequence", "normalizers": json.loads(steps)}).normalizer
    assert made is not None
    return normalizer_sections(made)


def piece_tables(pre_tokenizer: Mapping[str, Any] | None) -> dict[str, bytes]:
    """Tables of the pre-tokenizer, by code point: section ``pieces``. Raises ``UnsupportedModelError``."""
    if pre_tokenizer is None:
        raise unsupported("way without a", "pre_tokenizer")
    for step in steps_of(pre_tokenizer, "pretokenizers"):
        if step["type"] not in ("BertPreTokenizer", "WhitespaceSplit"):
            raise unsupported("pre_tokenizer", step["type"])
    return {"pieces": _pieces(json.dumps(pre_tokenizer))}


@lru_cache(maxsize=8)
def _pieces(pre_tokenizer: str) -> bytes:
    """Pieces of the library's own pre-tokenizer, as above."""
    made = bare_tokenizer(pre_tokenizer=json.loads(pre_tokenizer)).pre_tokenizer
    return two_stage(piece_kinds(made), width=1)


def steps_of(component: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The steps of a ``Sequence``, and of sequences in it, or the component itself."""
    if component["type"] != "Sequence":
        return [component]
    return [step for part in component[key] for step in steps_of(part, key)]


def compiled_tokenizer(text: str, *, pairs: bool = False, context: BuildContext) -> Path:
    """The table file of a tokenizer.json, as ``compile_tokenizer`` makes it. Raises what ``compile_tokenizer`` raises."""

    def make(folder: Path) -> None:
        (folder / FILE).write_bytes(compile_tokenizer(text, pairs=pairs))

    inputs = {
        "document": hashlib.sha256(text.encode()).hexdigest(),
        "tokenizers": tokenizers.__version__,
        "by": digest_of_code("runner/tokenizer"),
        **({"pairs": "true"} if pairs else {}),
    }
    return context.store.cached("tokenizer", inputs, make) / FILE
