"""The native tokenizer on byte-level BPE, as RoBERTa has it."""

import json
import unicodedata
from pathlib import Path

import pytest
from tests.support.parity import pair_of
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from edgepack.errors import UnsupportedModelError
from edgepack.runner.tokenizer.byte_level_bpe import PATTERNS, merge_table
from edgepack.runner.tokenizer.compile import compile_tokenizer

pytestmark = pytest.mark.tools("c++")

TEXTS = Path(__file__).parents[4] / "src/edgepack/verifier/data/texts.txt"


@pytest.fixture(scope="module")
def document() -> str:
    """A tokenizer of 3000 tokens, trained on texts in several languages."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=3000,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(TEXTS)], trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return str(tokenizer.to_str())


@pytest.mark.sample(1)
@pytest.mark.parametrize("changes", [{}, {"add_prefix_space": True}, {"use_regex": False}], ids=str)
def test_fuzz_texts(
    document: str, tokenizer_tool: Path, tmp_path: Path, fuzz: int, changes: dict[str, bool]
) -> None:
    said = json.loads(document)
    said["pre_tokenizer"] |= changes
    pair = pair_of(json.dumps(said), tokenizer_tool, tmp_path / "table.bin", max_length=64)
    texts = ["it's they'll WE'VE 'd''s", "a  b   c \n\n d ", "x" * 5000, " <mask>  <mask>"]
    assert list(pair.mismatches([*texts, *pair.texts(fuzz // 2, seed=11)])) == []


def test_with_a_normalizer_and_whole_words(document: str, tokenizer_tool: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_str(document)
    tokenizer.normalizer = normalizers.Lowercase()
    said = json.loads(tokenizer.to_str())
    said["model"]["ignore_merges"] = True
    pair = pair_of(json.dumps(said), tokenizer_tool, tmp_path / "table.bin", max_length=64)
    assert list(pair.mismatches(pair.texts(2000, seed=12))) == []


def test_composed_as_modernbert_has_it(
    document: str, tokenizer_tool: Path, tmp_path: Path, fuzz: int
) -> None:
    tokenizer = Tokenizer.from_str(document)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(" " * width, normalized=True) for width in (2, 3, 5)])
    tokenizer.add_tokens([AddedToken("e\u0301\u0323|||", normalized=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    pair = pair_of(tokenizer.to_str(), tokenizer_tool, tmp_path / "table.bin", max_length=64)
    assert list(pair.mismatches([*composable(), *pair.texts(fuzz, seed=13)])) == []


ODD = (
    "it's IT'S '\u017f '\u017ft 'Ll x'D 'rE're 'v e", "a1234567 1٣४೬12 ½² 12.5", "  a  1  !\n", "a\r\n\r\n  b\t\tc \n d   \n", " \u00a0x\u2003\u2003",
    "!?\n\n!", " !\n x", "\n\n", "  ", "\t", "\u3000日本 語 \n\n\n", "\x1c\x1d a", "'", "'x", "a'", "\u0301a \u0301", " \n \n x",
)  # fmt: skip
QWEN, LLAMA = PATTERNS


@pytest.mark.sample(1)
@pytest.mark.parametrize("pattern", [QWEN, LLAMA])
def test_split_as_qwen_and_llama_have_it(
    document: str, tokenizer_tool: Path, tmp_path: Path, fuzz: int, pattern: str
) -> None:
    tokenizer = Tokenizer.from_str(document)
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, rest])
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 2)])
    pair = pair_of(tokenizer.to_str(), tokenizer_tool, tmp_path / "table.bin", max_length=64)
    assert list(pair.mismatches([*ODD, *pair.texts(fuzz // 2, seed=14)])) == []


def composable() -> list[str]:
    """Every character taken apart, marks in and out of order around it; syllables; starters that compose."""
    wholes = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    apart = [unicodedata.normalize("NFD", whole) for whole in wholes]
    texts = [text for text, whole in zip(apart, wholes, strict=True) if text != whole]
    mixed = [f"{text[0]}\u0323{text[1:]}\u0301\u0345" for text in texts[:3000]]
    syllables = [
        "\u1100\u1161\u11a7",
        "\uac00\u11a8\u11a8",
        "\uac01\u11a8",
        "\u0301e\u0301",
        "\u09c7\u0301\u09be",
    ]
    return [*("".join(texts[at : at + 50]) for at in range(0, len(texts), 50)), *mixed, *syllables]


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("byte_fallback", True, "byte_fallback"),
        ("end_of_word_suffix", "</w>", "end_of_word_suffix"),
        ("dropout", 0.1, "dropout"),
    ],
)
def test_what_it_does_not_have_is_named(document: str, key: str, value: object, name: str) -> None:
    said = json.loads(document)
    said["model"][key] = value
    with pytest.raises(UnsupportedModelError, match=name):
        compile_tokenizer(json.dumps(said))


def test_ids_of_more_than_three_bytes_are_named() -> None:
    merges = {"merges": ["a b"], "vocab": {"a": 1, "b": 2, "ab": 2**24 - 1}}
    assert merge_table(merges)[-3:] == bytes([255] * 3)
    merges["vocab"] = {"a": 1, "b": 2, "ab": 2**24}
    with pytest.raises(UnsupportedModelError, match="16,777,215"):
        merge_table(merges)


def test_another_split_is_named(document: str) -> None:
    tokenizer = Tokenizer.from_str(document)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(use_regex=False)]
    )
    with pytest.raises(UnsupportedModelError, match="Sequence"):
        compile_tokenizer(tokenizer.to_str())
