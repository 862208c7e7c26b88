"""The native tokenizer on SentencePiece's BPE with bytes for what is unknown, as Gemma has it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.parity import pair_of
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from edgepack.errors import UnsupportedModelError
from edgepack.runner.tokenizer.compile import compile_tokenizer

pytestmark = pytest.mark.tools("c++")

TEXTS = Path(__file__).parents[4] / "src/edgepack/verifier/data/texts.txt"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MARK = "\u2581"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """A tokenizer of 2000 tokens, trained on texts in several languages; the bytes are plain tokens, as in Gemma's."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(MARK, "merged_with_next")
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "\n\n", *BYTES]
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=specials, limit_alphabet=300, show_progress=False
    )
    tokenizer.train([str(TEXTS)], trainer)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.post_processor = processors.TemplateProcessing(
        "<bos> $A <eos>", special_tokens=[("<bos>", 2), ("<eos>", 1)]
    )
    said: dict[str, Any] = json.loads(tokenizer.to_str())
    said["added_tokens"] = [token for token in said["added_tokens"] if token["content"] not in BYTES]
    return said


def without_splits(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "pre_tokenizer": None}


def prepended(document: dict[str, Any]) -> dict[str, Any]:
    """As Llama 2 and Mistral have it."""
    steps = [{"type": "Prepend", "prepend": MARK}, document["normalizer"]]
    return {**document, "pre_tokenizer": None, "normalizer": {"type": "Sequence", "normalizers": steps}}


@pytest.mark.parametrize("change", [dict, without_splits, prepended])
def test_fuzz_texts(
    document: dict[str, Any],
    tokenizer_tool: Path,
    tmp_path: Path,
    fuzz: int,
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    said = change(document)
    pair = pair_of(json.dumps(said), tokenizer_tool, tmp_path / "table.bin", max_length=64)
    texts = [
        " ",
        "  a  ",
        "\u2581 \u2581",
        "a\n\n\nb",
        "<0x41>",
        "x" * 5000,
        "\U0001f600\u0378 \ufffd",
        "<bos> a",
        "a<eos>b <pad>",
        "",
    ]
    assert list(pair.mismatches([*texts, *pair.texts(fuzz // 4, seed=15)])) == []


@pytest.mark.parametrize(
    ("part", "changes", "name"),
    [
        ("model", {"ignore_merges": True}, "ignore_merges"),
        ("model", {"dropout": 0.1}, "dropout"),
        ("pre_tokenizer", {"type": "ByteLevel"}, "ByteLevel"),
        ("normalizer", {"content": " _"}, "Split"),
        ("normalizer", {"pattern": {"String": "a"}}, "Split"),
    ],
    ids=str,
)
def test_what_it_does_not_have_is_named(
    document: dict[str, Any], part: str, changes: dict[str, Any], name: str
) -> None:
    said = {**document, part: {**document[part], **changes}}
    if part == "pre_tokenizer":
        said[part] = {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": False,
            "use_regex": True,
        }
    with pytest.raises(UnsupportedModelError, match=name):
        compile_tokenizer(json.dumps(said))


def test_a_vocabulary_without_a_byte_is_refused(document: dict[str, Any]) -> None:
    vocabulary = {token: number for token, number in document["model"]["vocab"].items() if token != "<0x0A>"}
    said = {**document, "model": {**document["model"], "vocab": vocabulary}}
    with pytest.raises(UnsupportedModelError, match="all 256 bytes"):
        compile_tokenizer(json.dumps(said))
