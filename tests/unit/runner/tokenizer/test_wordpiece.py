"""The native tokenizer on WordPiece models: the ids that Hugging Face's gives, for every text."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.parity import pair_of
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from edgepack.errors import UnsupportedModelError
from edgepack.models.read.tokenizer import minimal_json
from edgepack.records.model import ModelSource
from edgepack.runner.tokenizer.compile import compile_tokenizer

pytestmark = pytest.mark.tools("c++")

WORDS = (
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
)


def wordpiece(**changes: Any) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]", **changes)
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return tokenizer


def test_minilm_on_fuzz_texts(minilm: ModelSource, tokenizer_tool: Path, tmp_path: Path, fuzz: int) -> None:
    pair = pair_of(minimal_json(minilm), tokenizer_tool, tmp_path / "table.bin")
    assert list(pair.mismatches(pair.texts(fuzz, seed=5))) == []


def cased(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)


def accents_kept(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False)


def in_steps(tokenizer: Tokenizer) -> None:
    steps = [normalizers.Lowercase(), normalizers.NFD(), normalizers.StripAccents()]
    tokenizer.normalizer = normalizers.Sequence(steps)


def decomposed(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.NFKD()


def without_normalizer(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = None


def split_at_spaces(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


def greedy_token(tokenizer: Tokenizer) -> None:
    from tokenizers import AddedToken

    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("<ma")])
    tokenizer.add_tokens([AddedToken("Éa", normalized=True), AddedToken("cat c", normalized=False)])


def without_special_tokens(tokenizer: Tokenizer) -> None:
    tokenizer.post_processor = None


def composed(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.NFKC()])


CHANGES = [
    composed, cased, accents_kept, in_steps, decomposed, without_normalizer, split_at_spaces, greedy_token, without_special_tokens,
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("change", CHANGES)
def test_other_components_on_fuzz_texts(
    tokenizer_tool: Path, tmp_path: Path, change: Callable[[Tokenizer], None]
) -> None:
    tokenizer = wordpiece()
    change(tokenizer)
    pair = pair_of(tokenizer.to_str(), tokenizer_tool, tmp_path / "table.bin", max_length=12)
    texts = [*pair.texts(3000, seed=7), "<mask>  <ma <mask> x", " <mask>", "éa Éa ÉA", "cat cat c"]
    assert list(pair.mismatches(texts)) == []


def test_marks_come_into_canonical_order(tokenizer_tool: Path, tmp_path: Path) -> None:
    tokenizer = wordpiece()
    tokenizer.normalizer = normalizers.NFD()
    pair = pair_of(tokenizer.to_str(), tokenizer_tool, tmp_path / "table.bin")
    assert pair.reference.encode("c\u0303\u0327").ids != pair.reference.encode("c\u0303\u034f\u0327").ids
    texts = ["c\u0303\u0327", "c\u0327\u0303", "c\u0303\u034f\u0327", "\U0001d165\u1b44", "각\u0327"]
    assert list(pair.mismatches(texts)) == []


def test_words_that_are_too_long_are_unknown(tokenizer_tool: Path, tmp_path: Path) -> None:
    pair = pair_of(wordpiece(max_input_chars_per_word=5).to_str(), tokenizer_tool, tmp_path / "table.bin")
    assert pair.reference.encode("catsss a").ids == [2, 1, 4, 3]
    assert list(pair.mismatches(["catsss a", "catss", "a" * 100_000])) == []


@pytest.mark.parametrize(
    ("part", "component", "name"),
    [
        (
            "normalizer",
            {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
            "Lowercase",
        ),
        ("normalizer", {"type": "Sequence", "normalizers": [{"type": "Nmt"}]}, "Nmt"),
        ("pre_tokenizer", {"type": "Digits", "individual_digits": True}, "Digits"),
    ],
)
def test_a_component_that_it_does_not_have_is_named(part: str, component: dict[str, Any], name: str) -> None:
    document = json.loads(wordpiece().to_str())
    document[part] = component
    with pytest.raises(UnsupportedModelError, match=name) as caught:
        compile_tokenizer(json.dumps(document))
    assert "pyinstaller" in str(caught.value.hint)


def test_tokens_that_stand_alone(tokenizer_tool: Path, tmp_path: Path) -> None:
    """Not beside a letter, a mark, a digit, a joiner or a connector, as the library's own tables have them."""
    from tokenizers import AddedToken

    tokenizer = wordpiece()
    tokenizer.add_tokens(
        [
            AddedToken("cats", single_word=True, normalized=False),
            AddedToken("Éa", single_word=True, lstrip=True, rstrip=True),
            AddedToken("<a>", normalized=False),
        ]
    )
    pair = pair_of(tokenizer.to_str(), tokenizer_tool, tmp_path / "table.bin", max_length=12)
    known = tokenizer.token_to_id("cats")
    assert known in pair.reference.encode("a-cats.").ids
    assert known not in pair.reference.encode("acats cats_").ids
    letters = [
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
    ]
    apart = [
        f"{before}{token}{after}"
        for before in letters
        for after in letters
        for token in ("cats", " éa  ", "catscats")
    ]
    assert list(pair.mismatches([*apart, *pair.texts(3000, seed=7)])) == []


@pytest.fixture(scope="module")
def table() -> bytes:
    return compile_tokenizer(wordpiece().to_str())


@pytest.mark.parametrize("place", [0, 9, 20, 40, 400, -1])
def test_a_damaged_table_is_noticed(tokenizer_tool: Path, tmp_path: Path, table: bytes, place: int) -> None:
    content = bytearray(table)
    content[place] ^= 1
    (tmp_path / "table.bin").write_bytes(content)
    done = subprocess.run([tokenizer_tool, tmp_path / "table.bin", "8"], capture_output=True, check=False)
    assert done.returncode == 4
    assert b"is damaged" in done.stderr


def test_a_table_is_always_the_same(table: bytes) -> None:
    assert compile_tokenizer(wordpiece().to_str()) == table
