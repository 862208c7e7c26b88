"""Long texts are cut before they are tokenized, and nobody can tell by the tokens."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_program import vectors_of
from tests.unit.runner.frozen.conftest import START, Thin
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from edgepack.records.model import ModelSource
from edgepack.runner.frozen.tokenizer import HuggingFaceTokenizer
from edgepack.runner.tokenizer.truncation import TextTruncator, boundary_of
from edgepack.verifier.texts.fuzz import fuzz_texts_for

pytestmark = pytest.mark.tools("c++", "python")

LENGTH = 12
CORPUS = [
    "the cat sat on the mat",
    "Über die Brücke, 42 mal!",
    "東京は日本の首都です。",
    "naïve café <b>",
    "한국어 문장",
] * 4


def trained(
    model: Any, trainer: Any, *, normalizer: Any = None, splitter: Any, marks: tuple[str, str]
) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(list(marks))
    ids = [(mark, tokenizer.token_to_id(mark)) for mark in marks]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{marks[0]} $A {marks[1]}", special_tokens=ids
    )
    return tokenizer


def byte_level(normalizer: Any = None) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = trained(models.BPE(), trainer, normalizer=normalizer, splitter=splitter, marks=("<s>", "</s>"))
    made.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    made.decoder = decoders.ByteLevel()
    return made


def unigram(splitter: Any, normalizer: Any) -> Tokenizer:
    trainer = trainers.UnigramTrainer(
        vocab_size=120, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
    )
    return trained(models.Unigram(), trainer, normalizer=normalizer, splitter=splitter, marks=("<s>", "</s>"))


def word_piece(normalizer: Any) -> Tokenizer:
    trainer = trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=["[UNK]", "[MASK]"], show_progress=False
    )
    return trained(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20),
        trainer,
        normalizer=normalizer,
        splitter=pre_tokenizers.BertPreTokenizer(),
        marks=("[CLS]", "[SEP]"),
    )


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "bert": lambda: word_piece(normalizers.BertNormalizer()),
    "bert cased": lambda: word_piece(normalizers.BertNormalizer(lowercase=False, strip_accents=False)),
    "bert composed": lambda: word_piece(normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])),
    "byte level": byte_level,
    "byte level composed": lambda: byte_level(normalizers.NFC()),
    "unigram": lambda: unigram(
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]),
    ),
    "metaspace": lambda: unigram(pre_tokenizers.Metaspace(), normalizers.NFC()),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_cut_leaves_the_first_tokens_as_they_are(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    assert_cuts_are_right(tokenizer, json.loads(tokenizer.to_str()), 3000)


@pytest.mark.slow
def test_a_cut_leaves_the_first_tokens_of_a_real_model(minilm: ModelSource) -> None:
    document = json.loads(minilm.tokenizer.read_text())
    assert_cuts_are_right(Tokenizer.from_file(str(minilm.tokenizer)), document, 3000)


def assert_cuts_are_right(tokenizer: Tokenizer, document: dict[str, Any], number: int) -> None:
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTH)
    truncator = TextTruncator(document, max_length=LENGTH)
    cut = 0
    source = random.Random(5)
    for text in fuzz_texts_for(tokenizer, number, seed=5):
        # At any length, so that every kind of place comes up.
        truncator.first = source.randrange(1, len(text) + 2)
        head = truncator.truncate(text, lambda part: len(tokenizer.encode(part).ids))
        assert len(head) <= len(text)
        cut += head != text
        assert tokenizer.encode(head).ids == tokenizer.encode(text).ids, (text, head)
    assert cut > number / 10


PIECES = ["[SEP]", "[MASK]", "<mask>", "</s>", "a", "b", "≮", "≠", " ", "  ", "\n", ".", "漢", "か", "é"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_place_of_a_short_text(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    tokenizer.enable_truncation(5)
    truncator = TextTruncator(json.loads(tokenizer.to_str()), max_length=5)
    source = random.Random(11)
    for _ in range(1500):
        text = "".join(source.choices(PIECES, k=source.randrange(2, 9)))
        expected = tokenizer.encode(text).ids
        for truncator.first in range(1, len(text)):
            head = truncator.truncate(text, lambda part: len(tokenizer.encode(part).ids))
            assert tokenizer.encode(head).ids == expected, (text, head)


@pytest.mark.parametrize(
    "change",
    [
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Split"}},
        {"pre_tokenizer": {"type": "ByteLevel", "use_regex": False}},
        {"pre_tokenizer": {"type": "Metaspace", "split": False}},
        {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": ""}},
        {"added_tokens": [{"content": "[A B]", "normalized": True}]},
    ],
)
def test_a_tokenizer_that_is_not_known_gets_the_whole_text(change: dict[str, Any]) -> None:
    for known in ("BertPreTokenizer", "WhitespaceSplit"):
        assert boundary_of({"pre_tokenizer": {"type": known}})
        assert boundary_of({"pre_tokenizer": {"type": known}, **change}) is None


@pytest.fixture
def tokens(bundle: Path) -> HuggingFaceTokenizer:
    """The sample's tokenizer, as the frozen program has it."""
    return HuggingFaceTokenizer(str(bundle / "model/tokenizer.json"))


def test_a_text_is_not_read_further_than_it_counts(
    tokens: HuggingFaceTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    count = tokens._count
    monkeypatch.setattr(tokens, "_count", lambda text: asked.append(len(text)) or count(text))  # type: ignore[func-returns-value]
    sentence = "a cat sat on the mat"
    assert tokens.encode(f"{sentence} " * 500_000, None, 6) == tokens.encode(sentence, None, 6)
    assert asked
    assert max(asked) <= 4096


@pytest.mark.parametrize("unit", ["a", "9Z", " ", " \n"])
def test_what_has_no_boundary_is_squeezed(tokens: HuggingFaceTokenizer, unit: str) -> None:
    expected = tokens.encode("cat " + unit * 2000 + " mat", None, 6)
    long = tokens._cut("cat " + unit * 1_000_000 + " mat")
    assert len(long) < 200
    assert tokens.encode(long, None, 6) == expected


PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.slow
def test_a_line_of_ten_megabytes_takes_little_memory(
    bundle: Path, python: Path, thin: Thin, tmp_path: Path
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("a cat sat on the mat " * 500_000 + "\n")
    long, short = (thin(*arguments) for arguments in (("--input", str(path)), ("a cat sat on the mat",)))
    assert vectors_of(long.stdout) == vectors_of(short.stdout)
    peaks = []
    for arguments in (["a cat"], ["--input", str(path)]):
        words = [sys.executable, "-c", START, str(python), str(bundle), *arguments]
        measured = [sys.executable, "-c", PEAK, *words]
        peaks.append(int(subprocess.run(measured, capture_output=True, check=True).stdout))
    # In KiB: the line itself in a few copies, not a hundred bytes for each of its characters.
    assert peaks[1] - peaks[0] < 100_000
