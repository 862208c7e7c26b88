"""The native tokenizer beside Hugging Face's: the same ids for every text, of every kind of model that it has; the others are refused by name."""

import json
import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.support.parity import pair_of
from tests.support.sentencepieces import charsmap, pieces
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from edgepack.errors import UnsupportedModelError
from edgepack.runner.tokenizer.byte_level_bpe import PATTERNS, merge_table
from edgepack.runner.tokenizer.compile import compile_tokenizer

pytestmark = pytest.mark.tools("c++")

TEXTS = str(Path(__file__).parents[4] / "src/edgepack/verifier/data/texts.txt")
MARK = "\u2581"
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "a",
    "cat",
    "##s",
    "##t",
    "c",
    "e",
    "é",
    "##é",
    "É",
    "火",
    "̃",
    "가",
    "ᄀ",
    "##ᅡ",
    "##̃",
    "##̧",
]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def template(single: str, **ids: int) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(
        single=single, special_tokens=[(f"<{name}>", at) for name, at in ids.items()]
    )


def wordpiece(**changes: Any) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]", **changes)
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return tokenizer


@cache
def _byte_level() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=3000,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([TEXTS], trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return str(tokenizer.to_str())


def byte_level() -> Tokenizer:
    """3000 tokens, trained on texts in several languages, as RoBERTa has them."""
    return Tokenizer.from_str(_byte_level())


@cache
def _character_bpe() -> str:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(MARK, "merged_with_next")
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "\n\n", *BYTES]
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=specials, limit_alphabet=300, show_progress=False
    )
    tokenizer.train([TEXTS], trainer)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.post_processor = template("<bos> $A <eos>", bos=2, eos=1)
    said: dict[str, Any] = json.loads(tokenizer.to_str())
    said["added_tokens"] = [token for token in said["added_tokens"] if token["content"] not in BYTES]
    return json.dumps(said)


def character_bpe() -> dict[str, Any]:
    """2000 tokens; the bytes are plain ones, as in Gemma's."""
    return dict(json.loads(_character_bpe()))


def unigram() -> dict[str, Any]:
    """2000 tokens, with the map ``nmt_nfkc``, in XLM-RoBERTa's layout."""
    special = ("<s>", "<pad>", "</s>", "<unk>")
    vocabulary = [*([token, 0.0] for token in special), *pieces(), ["<mask>", 0.0]]
    added = [*enumerate(special), (len(vocabulary) - 1, "<mask>")]
    plain = {"single_word": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": at, "content": token, "lstrip": token == "<mask>", **plain} for at, token in added],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap()},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace("always")]},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
                           "trim_offsets": True, "add_prefix_space": False},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary, "byte_fallback": False},
    }  # fmt: skip


def metaspace(scheme: str, *, split: bool = True) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}


def with_parts(tokenizer: Tokenizer, **parts: Any) -> str:
    """With other parts in the place of its own."""
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return str(tokenizer.to_str())


def with_tokens(tokenizer: Tokenizer, *tokens: AddedToken) -> Tokenizer:
    tokenizer.add_tokens(list(tokens))
    return tokenizer


def greedy() -> str:
    tokenizer = wordpiece()
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("<ma")])
    return str(
        with_tokens(
            tokenizer, AddedToken("Éa", normalized=True), AddedToken("cat c", normalized=False)
        ).to_str()
    )


def alone() -> Tokenizer:
    return with_tokens(
        wordpiece(),
        AddedToken("cats", single_word=True, normalized=False),
        AddedToken("Éa", single_word=True, lstrip=True, rstrip=True),
        AddedToken("<a>", normalized=False),
    )


def roberta(part: str, **changes: Any) -> str:
    said = json.loads(_byte_level())
    said[part] |= changes
    return json.dumps(said)


def modernbert() -> str:
    spaces = [AddedToken(" " * width, normalized=True) for width in (2, 3, 5)]
    tokenizer = with_tokens(byte_level(), *spaces, AddedToken("e\u0301\u0323|||", normalized=True))
    post = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return with_parts(tokenizer, normalizer=normalizers.NFC(), post_processor=post)


def split_by(pattern: str) -> str:
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    post = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 2)])
    return with_parts(byte_level(), pre_tokenizer=pre_tokenizers.Sequence([split, rest]), post_processor=post)


def squeezed_unigram() -> dict[str, Any]:
    document = unigram()
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    squeeze = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}
    steps = [document["normalizer"], strip, squeeze]
    return {
        **document,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": metaspace("first"),
    }


def unigram_without_splits() -> dict[str, Any]:
    document = unigram()
    steps = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, document["normalizer"]]
    normalizer = {"type": "Sequence", "normalizers": steps}
    return {**document, "normalizer": normalizer, "pre_tokenizer": metaspace("never", split=False)}


def unigram_of_doubles() -> dict[str, Any]:
    document = unigram()
    for entry in document["model"]["vocab"]:
        entry[1] = entry[1] / 3
    return document


def unigram_of_float32() -> dict[str, Any]:
    """Scores as XLM-RoBERTa's own file has them: float32, in the 16 or 17 digits of a double."""
    document = unigram()
    for entry in document["model"]["vocab"]:
        entry[1] = struct.unpack("<f", struct.pack("<f", entry[1] / 3))[0]
    return document


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


def apart() -> list[str]:
    """Not beside a letter, a mark, a digit, a joiner or a connector, as the library's own tables have them."""
    letters = (
        "",
        " ",
        "-",
        "_",
        "a",
        "é",
        "漢",
        "\u0301",
        "\u200d",
        "1",
        "²",
        "\U0001d400",
        "\U0001f355",
        "\0",
        "<a>",
    )
    tokens = ("cats", " éa  ", "catscats")
    return [f"{before}{token}{after}" for before in letters for after in letters for token in tokens]


MASKED = ("<mask>  <ma <mask> x", " <mask>", "éa Éa ÉA", "cat cat c")
QUOTED = ("it's they'll WE'VE 'd''s", "a  b   c \n\n d ", "x" * 5000, " <mask>  <mask>")
ODD = (
    "it's IT'S '\u017f '\u017ft 'Ll x'D 'rE're 'v e", "a1234567 1٣४೬12 ½² 12.5", "  a  1  !\n", "a\r\n\r\n  b\t\tc \n d   \n", " \u00a0x\u2003\u2003",
    "!?\n\n!", " !\n x", "\n\n", "  ", "\t", "\u3000日本 語 \n\n\n", "\x1c\x1d a", "'", "'x", "a'", "\u0301a \u0301", " \n \n x",
)  # fmt: skip
GEMMA = (
    " ",
    "  a  ",
    "\u2581 \u2581",
    "a\n\n\nb",
    "<0x41>",
    "x" * 5000,
    "\U0001f600\u0378 \ufffd",
    "<bos> a",
)
PIECES = ("ﬁ™\u0301 ™\u0301\u0301", "\ufffdx", "a\r\nb\r", "<mask>  <mask> x", "क्\u200dष\u0301", "x" * 5000)
RUNS = tuple(
    f"{word}{letter * times}"
    for word in ("again", "year", "the", "")
    for letter in "-4a. e"
    for times in range(2, 40)
)
"""Cut in many ways of one sum, of which one is less for the library."""
MARKS = ("c\u0303\u0327", "c\u0327\u0303", "c\u0303\u034f\u0327", "\U0001d165\u1b44", "각\u0327")
QWEN, LLAMA = PATTERNS


@dataclass(frozen=True)
class Case:
    """A document, the texts that it is tried on beside drawn ones, and how many of these: of --fuzz, or so many."""

    document: Callable[[], str | dict[str, Any]]
    texts: Sequence[str] | Callable[[], Sequence[str]] = ()
    of_fuzz: float = 0
    drawn: int = 0
    length: int = 64


def bert(texts: Sequence[str] = MASKED, drawn: int = 3000, **parts: Any) -> Case:
    return Case(lambda: with_parts(wordpiece(), **parts), texts, drawn=drawn, length=12)


LOWER, NFD, BARE = normalizers.Lowercase(), normalizers.NFD(), normalizers.StripAccents()
CASES: Mapping[str, Case] = {
    "composed": bert(normalizer=normalizers.Sequence([LOWER, normalizers.NFKC()])),
    "greedy tokens": Case(greedy, MASKED, drawn=3000, length=12),
    "tokens that stand alone": Case(lambda: alone().to_str(), apart, drawn=3000, length=12),
    "marks in canonical order": bert(MARKS, 0, normalizer=NFD),
    "words that are too long": Case(
        lambda: wordpiece(max_input_chars_per_word=5).to_str(), ("catsss a", "catss", "a" * 100_000)
    ),
    "RoBERTa": Case(_byte_level, QUOTED, of_fuzz=0.5),
    "a normalizer and whole words": Case(
        lambda: with_parts(byte_level(), normalizer=LOWER).replace(
            '"ignore_merges":false', '"ignore_merges":true'
        ),
        drawn=2000,
    ),
    "ModernBERT": Case(modernbert, composable, of_fuzz=1),
    "Qwen": Case(lambda: split_by(QWEN), ODD, of_fuzz=0.5),
    "Gemma": Case(character_bpe, GEMMA, of_fuzz=0.25),
    "Gemma without splits": Case(lambda: {**character_bpe(), "pre_tokenizer": None}, GEMMA, of_fuzz=0.25),
    "XLM-RoBERTa": Case(unigram, PIECES, of_fuzz=0.5),
    "Unigram without splits": Case(unigram_without_splits, PIECES, of_fuzz=0.5),
    "scores that the library rounds": Case(unigram_of_float32, RUNS, of_fuzz=0.5),
}
FURTHER: Mapping[str, Case] = {
    "cased": bert(normalizer=normalizers.BertNormalizer(lowercase=False)),
    "accents kept": bert(normalizer=normalizers.BertNormalizer(strip_accents=False)),
    "in steps": bert(normalizer=normalizers.Sequence([LOWER, NFD, BARE])),
    "decomposed": bert(normalizer=normalizers.NFKD()),
    "without normalizer": bert(normalizer=None),
    "split at spaces": bert(pre_tokenizer=pre_tokenizers.WhitespaceSplit()),
    "without special tokens": bert(post_processor=None),
    "RoBERTa with a space first": Case(
        lambda: roberta("pre_tokenizer", add_prefix_space=True), QUOTED, of_fuzz=0.5
    ),
    "RoBERTa without a pattern": Case(lambda: roberta("pre_tokenizer", use_regex=False), QUOTED, of_fuzz=0.5),
    "Llama": Case(lambda: split_by(LLAMA), ODD, of_fuzz=0.5),
    "squeezed spaces": Case(squeezed_unigram, PIECES, of_fuzz=0.5),
    "double scores": Case(unigram_of_doubles, PIECES, of_fuzz=0.5),
}
"""With ``--slow``."""


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in FURTHER)])
def test_fuzz_texts(tokenizer_tool: Path, tmp_path: Path, fuzz: int, name: str) -> None:
    case = {**CASES, **FURTHER}[name]
    made = case.document()
    document = made if isinstance(made, str) else json.dumps(made)
    pair = pair_of(document, tokenizer_tool, tmp_path / "table.bin", max_length=case.length)
    texts = case.texts() if callable(case.texts) else case.texts
    drawn = pair.texts(case.drawn or int(fuzz * case.of_fuzz), seed=7)
    assert list(pair.mismatches([*texts, *drawn])) == []


def test_what_the_texts_are_there_for() -> None:
    """They differ by what is tried: by the order of marks, by a word's length, by what stands beside a token."""
    known = alone().token_to_id("cats")
    assert known in alone().encode("a-cats.").ids
    assert known not in alone().encode("acats cats_").ids
    ordered = Tokenizer.from_str(with_parts(wordpiece(), normalizer=NFD))
    assert ordered.encode("c\u0303\u0327").ids != ordered.encode("c\u0303\u034f\u0327").ids
    assert wordpiece(max_input_chars_per_word=5).encode("catsss a").ids == [2, 1, 4, 3]


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}
KINDS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "wordpiece": lambda: dict(json.loads(wordpiece().to_str())),
    "byte level": lambda: dict(json.loads(_byte_level())),
    "characters": character_bpe,
    "unigram": unigram,
}


@pytest.mark.parametrize(
    ("kind", "part", "changes", "name"),
    [
        ("wordpiece", "normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}, "Lowercase"),
        ("wordpiece", "normalizer", {"type": "Sequence", "normalizers": [{"type": "Nmt"}]}, "Nmt"),
        ("wordpiece", "pre_tokenizer", DIGITS, "Digits"),
        ("byte level", "model", {"byte_fallback": True}, "byte_fallback"),
        ("byte level", "model", {"end_of_word_suffix": "</w>"}, "end_of_word_suffix"),
        ("byte level", "model", {"dropout": 0.1}, "dropout"),
        ("byte level", "pre_tokenizer", {"type": "Sequence", "pretokenizers": [DIGITS, {**BYTE_LEVEL, "use_regex": False}]}, "Sequence"),
        ("characters", "model", {"ignore_merges": True}, "ignore_merges"),
        ("characters", "model", {"dropout": 0.1}, "dropout"),
        ("characters", "model", {"vocab": {"a": 0}, "merges": [], "unk_token": "a"}, "all 256 bytes"),
        ("characters", "pre_tokenizer", BYTE_LEVEL, "ByteLevel"),
        ("characters", "normalizer", {"type": "Replace", "pattern": {"String": " "}, "content": " _"}, "Split"),
        ("characters", "normalizer", {"type": "Replace", "pattern": {"String": "a"}, "content": MARK}, "Split"),
        ("unigram", "model", {"byte_fallback": True}, "byte_fallback"),
        ("unigram", "model", {"unk_id": None}, "unk_id"),
        ("unigram", "normalizer", {"type": "Replace", "pattern": {"String": "x"}, "content": "y"}, "Replace"),
        ("unigram", "pre_tokenizer", DIGITS, "Digits"),
    ],
)  # fmt: skip
def test_what_it_does_not_have_is_named(kind: str, part: str, changes: dict[str, Any], name: str) -> None:
    document = KINDS[kind]()
    document[part] = {**document[part], **changes} if part == "model" else changes
    with pytest.raises(UnsupportedModelError, match=name) as caught:
        compile_tokenizer(json.dumps(document))
    assert part == "model" or "--target linux-x86" in str(caught.value.hint)


def test_ids_of_more_than_three_bytes_are_named() -> None:
    merges = {"merges": ["a b"], "vocab": {"a": 1, "b": 2, "ab": 2**24 - 1}}
    assert merge_table(merges)[-3:] == bytes([255] * 3)
    merges["vocab"] = {"a": 1, "b": 2, "ab": 2**24}
    with pytest.raises(UnsupportedModelError, match="16,777,215"):
        merge_table(merges)
