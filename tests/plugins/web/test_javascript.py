"""The page's JavaScript in Node: downloads from a bad server, and the tokenizer beside the real one."""

import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.tables import unigram
from tests.support.batches import batches
from tests.support.node_tests import run_node_tests
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

import edgepack_web
from edgepack.errors import UnsupportedModelError
from edgepack.runner.tokenizer.web_tables import unigram_table, wordpiece_table
from edgepack.verifier.texts.fuzz import fuzz_texts, fuzz_texts_for
from edgepack_web.npm.modules import joined, without_comments
from edgepack_web.npm.node import find_node

pytestmark = pytest.mark.tools("node")

JS = Path(edgepack_web.__file__).with_name("js")
WORDS = [
    "a",
    "ab",
    "b",
    "c",
    "the",
    "cat",
    "dog",
    "ein",
    "über",
    "12",
    "3",
    ",",
    ".",
    "!",
    "-",
    "'",
    "猫",
    "犬",
    "と",
    "й",
    "и",
    "ა",
    "ह",
    "ि",
    "कि",
    "각",
    "é",
]


def test_downloads_from_a_server_that_misbehaves() -> None:
    assert "# fail 0" in run_node_tests("assets")


def test_the_service_worker_among_others() -> None:
    assert "# fail 0" in run_node_tests("service")


def test_what_is_kept_in_files() -> None:
    assert "# fail 0" in run_node_tests("kept")


def test_threads_where_none_are_asked_for() -> None:
    assert "# fail 0" in run_node_tests("usual_threads")


def test_texts_go_together_as_in_the_native_runners(tmp_path: Path) -> None:
    generator = random.Random(5)
    cases = []
    for longest in (40, 256, 512):
        for count in (1, 7, 50, 400):
            lengths = [generator.randint(0, longest) for _ in range(count)]
            made = batches(lengths, 8, tokens=max(64, longest))
            rows = [[lengths[index] for index in batch] for batch in made]
            cases.append({"lengths": lengths, "longest": longest, "batches": rows})
    expected = tmp_path / "expected.json"
    expected.write_text(json.dumps(cases))
    assert "# fail 0" in run_node_tests("batches", EXPECTED=str(expected))


def small_wordpiece(**normalizer: bool) -> Tokenizer:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *("##" + word for word in WORDS)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=20))
    made.normalizer = normalizers.BertNormalizer(**normalizer)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return made


@pytest.mark.sample(1)
@pytest.mark.parametrize("lowercase", [True, False])
def test_wordpiece_gives_the_ids_of_the_real_tokenizer(tmp_path: Path, fuzz: int, lowercase: bool) -> None:
    tokenizer = small_wordpiece(lowercase=lowercase)
    tokenizer.add_tokens(["catdog", AddedToken("the", single_word=True), AddedToken("b", single_word=True)])
    texts = list(fuzz_texts(fuzz, seed=5, words=WORDS, specials=["[MASK]", "[SEP]", "catdog", "the", "b"]))
    same_ids(tokenizer, "WordPiece", wordpiece_table(tokenizer.to_str()), texts, tmp_path)


def same_ids(tokenizer: Tokenizer, kind: str, table: bytes, texts: list[str], folder: Path) -> None:
    """Of each text, cut to 24 tokens, by the page's class ``kind``; now and then by one that has seen no other text."""
    (folder / "table.bin").write_bytes(table)
    tokenizer.enable_truncation(24)
    script = folder / "run.mjs"
    module = (JS / {"WordPiece": "tokenizer.mjs", "Unigram": "unigram.mjs"}[kind]).as_uri()
    script.write_text(
        f"import {{ {kind} }} from {json.dumps(module)};\n"
        "import { readFileSync } from 'node:fs';\n"
        f"const fresh = () => new {kind}(new Uint8Array(readFileSync({json.dumps(str(folder / 'table.bin'))})));\n"
        "const made = fresh();\n"
        "const texts = JSON.parse(readFileSync(0, 'utf8'));\n"
        "process.stdout.write(JSON.stringify(texts.map((text, at) => (at % 8 ? made : fresh()).encode(text, 24).ids)));\n"
    )
    done = subprocess.run(
        [find_node(), script], input=json.dumps(texts), capture_output=True, encoding="utf-8", check=True
    )
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    for text, found, wanted in zip(texts, json.loads(done.stdout), expected, strict=True):
        # Where the real one makes nothing of a text, the page takes padding.
        assert found == wanted or not wanted, repr(text)


@pytest.mark.sample(1)
@pytest.mark.parametrize("squeezed", [False, True])
def test_unigram_gives_the_ids_of_the_real_tokenizer(tmp_path: Path, fuzz: int, squeezed: bool) -> None:
    """As XLM-RoBERTa's, with SentencePiece's map of characters; squeezed as multilingual E5 has it."""
    document = unigram()
    if squeezed:
        document["added_tokens"][0] |= {"single_word": True, "lstrip": True}
    else:
        document["normalizer"] = document["normalizer"]["normalizers"][0]
        steps = [{"type": "WhitespaceSplit"}, document["pre_tokenizer"]]
        document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    tokenizer = Tokenizer.from_str(json.dumps(document))
    table = unigram_table(tokenizer.to_str())
    same_ids(tokenizer, "Unigram", table, list(fuzz_texts_for(tokenizer, fuzz, seed=5)), tmp_path)


LOWER: list[dict[str, Any]] = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
NORMALIZERS: dict[str, list[dict[str, Any]]] = {
    "NFKC": [{"type": "NFKC"}],
    "NFC and marked spaces": [
        {"type": "NFC"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ],
    "ALBERT's": [*LOWER, {"type": "Precompiled"}],
}
"""Steps of other Unigram models than XLM-RoBERTa's; of SentencePiece's map only the place."""
COMPOSED = [
    "e\u0301 \u1112\u1161\u11ab ﬁ™\u0301 \U0001e054 q\u0307\u0323 \u0344",
    "\u0b47\u0300\u0b3e a\u0315\u0300 a\u0300\u0315\u0301",
    "e\u0310\u0301 e\u0301\u0310 e\u0323\u0301",
    "\u0301",
    "각",
]
"""What composes, what stands in its way, and a letter that is newer than the library's tables."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("steps", NORMALIZERS.values(), ids=NORMALIZERS)
@pytest.mark.parametrize("count", [500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_unigram_with_other_normalizers_gives_the_ids_of_the_real_tokenizer(
    tmp_path: Path, steps: list[dict[str, Any]], count: int
) -> None:
    document = unigram()
    (own, *_) = document["normalizer"]["normalizers"]
    document["normalizer"] = {
        "type": "Sequence",
        "normalizers": [own if step["type"] == own["type"] else step for step in steps],
    }
    document["model"]["vocab"] += [[letter, -9.0] for letter in "é각한ą\u0315"]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    texts = [*COMPOSED, *fuzz_texts_for(tokenizer, count, seed=6)]
    same_ids(tokenizer, "Unigram", unigram_table(tokenizer.to_str()), texts, tmp_path)


def test_a_unigram_model_with_another_normalizer_has_no_table() -> None:
    document = unigram()
    document["normalizer"] = {"type": "Nmt"}
    with pytest.raises(UnsupportedModelError, match="normalizer Nmt"):
        unigram_table(json.dumps(document))
    with pytest.raises(UnsupportedModelError, match="model WordPiece"):
        unigram_table(small_wordpiece().to_str())


def test_an_added_token_of_white_space_that_takes_more_of_it_has_no_table() -> None:
    """The page found it at other places of a text."""
    tokenizer = small_wordpiece()
    tokenizer.add_tokens([AddedToken(" ", normalized=False)])
    assert wordpiece_table(tokenizer.to_str())
    document = json.loads(tokenizer.to_str())
    document["added_tokens"][-1]["lstrip"] = True
    with pytest.raises(UnsupportedModelError, match="added token of white space"):
        wordpiece_table(json.dumps(document))


def test_a_tokenizer_that_is_no_wordpiece_has_no_table() -> None:
    with pytest.raises(UnsupportedModelError, match="model BPE"):
        wordpiece_table(Tokenizer(models.BPE()).to_str())


def test_the_worker_is_one_file_that_imports_nothing_beside_it(tmp_path: Path) -> None:
    text = joined(JS / "worker.mjs")
    assert not re.search(r'^import .* from "\.', text, re.MULTILINE)
    assert "//" not in re.sub(r'"[^"\n]*"|`[^`]*`|/\* @vite.*?\*/', "", text)
    assert text.index("class Session") < text.index("class Engine")
    (tmp_path / "worker.mjs").write_text(text)
    subprocess.run([find_node(), "--check", tmp_path / "worker.mjs"], check=True)


def test_comments_go_and_code_stays() -> None:
    source = '/** What it does. */\nconst a = "// no comment"; // stays\n  // goes\n\n  const b = `x`;\n'
    assert without_comments(source) == 'const a = "// no comment"; // stays\nconst b = `x`;\n'
