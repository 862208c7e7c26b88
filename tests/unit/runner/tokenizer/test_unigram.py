"""The native tokenizer on Unigram models with SentencePiece's map of characters, as XLM-RoBERTa and multilingual E5 have them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.parity import pair_of
from tests.support.sentencepieces import charsmap, pieces

from edgepack.errors import UnsupportedModelError
from edgepack.runner.tokenizer.compile import compile_tokenizer

pytestmark = pytest.mark.tools("c++")

MARK = "▁"
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """A tokenizer.json of 2000 tokens, with the map ``nmt_nfkc``, in XLM-RoBERTa's layout."""
    vocabulary = [*([token, 0.0] for token in SPECIAL), *pieces(), ["<mask>", 0.0]]
    added = [*enumerate(SPECIAL), (len(vocabulary) - 1, "<mask>")]
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": token == "<mask>",
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, token in added
        ],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap()},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
                           "trim_offsets": True, "add_prefix_space": False},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary, "byte_fallback": False},
    }  # fmt: skip


def as_it_is(document: dict[str, Any]) -> None:
    pass


def with_squeezed_spaces(document: dict[str, Any]) -> None:
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    squeeze = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}
    document["normalizer"] = {"type": "Sequence", "normalizers": [document["normalizer"], strip, squeeze]}
    document["pre_tokenizer"] = {
        "type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": True,
    }  # fmt: skip


def with_other_steps_and_no_splits(document: dict[str, Any]) -> None:
    steps: list[dict[str, Any]] = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    document["normalizer"] = {"type": "Sequence", "normalizers": [*steps, document["normalizer"]]}
    document["pre_tokenizer"] = {
        "type": "Metaspace", "replacement": MARK, "prepend_scheme": "never", "split": False,
    }  # fmt: skip


def with_double_scores(document: dict[str, Any]) -> None:
    for entry in document["model"]["vocab"]:
        entry[1] = entry[1] / 3


CHANGES = [as_it_is, with_squeezed_spaces, with_other_steps_and_no_splits, with_double_scores]


@pytest.mark.sample(2)
@pytest.mark.parametrize("change", CHANGES)
def test_fuzz_texts(
    document: dict[str, Any],
    tokenizer_tool: Path,
    tmp_path: Path,
    fuzz: int,
    change: Callable[[dict[str, Any]], None],
) -> None:
    changed = json.loads(json.dumps(document))
    change(changed)
    pair = pair_of(json.dumps(changed), tokenizer_tool, tmp_path / "table.bin", max_length=64)
    texts = [
        "ﬁ™\u0301 ™\u0301\u0301",
        "\ufffdx",
        "a\r\nb\r",
        "<mask>  <mask> x",
        "क्\u200dष\u0301",
        "x" * 5000,
    ]
    assert list(pair.mismatches([*texts, *pair.texts(fuzz // 2, seed=13)])) == []


@pytest.mark.parametrize(
    ("part", "changes", "name"),
    [
        ("model", {"byte_fallback": True}, "byte_fallback"),
        ("model", {"unk_id": None}, "unk_id"),
        ("normalizer", {"type": "Replace", "pattern": {"String": "x"}, "content": "y"}, "Replace"),
        ("pre_tokenizer", {"type": "Digits"}, "Digits"),
    ],
)
def test_what_it_does_not_have_is_named(
    document: dict[str, Any], part: str, changes: dict[str, Any], name: str
) -> None:
    changed = json.loads(json.dumps(document))
    changed[part] = {**changed[part], **changes} if part == "model" else changes
    if part == "pre_tokenizer":
        changed[part]["individual_digits"] = True
    with pytest.raises(UnsupportedModelError, match=name):
        compile_tokenizer(json.dumps(changed))
