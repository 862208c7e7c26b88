"""The page's JavaScript in Node: downloads from a bad server, and the tokenizer beside the real one."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.support.node_tests import run_node_tests
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

import edgepack_web
from edgepack.errors import UnsupportedModelError
from edgepack.runner.tokenizer.wordpiece_table import wordpiece_table
from edgepack.verifier.fuzz_texts import fuzz_texts
from edgepack_web.modules import joined, without_comments
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


@pytest.mark.parametrize("lowercase", [True, False])
def test_wordpiece_gives_the_ids_of_the_real_tokenizer(tmp_path: Path, lowercase: bool) -> None:
    tokenizer = small_wordpiece(lowercase=lowercase)
    tokenizer.add_tokens(["catdog", AddedToken("the", single_word=True), AddedToken("b", single_word=True)])
    table = tmp_path / "table.bin"
    table.write_bytes(wordpiece_table(tokenizer.to_str()))
    texts = list(fuzz_texts(3000, seed=5, words=WORDS, specials=["[MASK]", "[SEP]", "catdog", "the", "b"]))
    tokenizer.enable_truncation(24)
    script = tmp_path / "run.mjs"
    script.write_text(
        f"import {{ WordPiece }} from {json.dumps((JS / 'tokenizer.mjs').as_uri())};\n"
        "import { readFileSync } from 'node:fs';\n"
        f"const made = new WordPiece(new Uint8Array(readFileSync({json.dumps(str(table))})));\n"
        "const texts = JSON.parse(readFileSync(0, 'utf8'));\n"
        "process.stdout.write(JSON.stringify(texts.map((text) => made.encode(text, 24).ids)));\n"
    )
    done = subprocess.run(
        [find_node(), script], input=json.dumps(texts), capture_output=True, encoding="utf-8", check=True
    )
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    for text, found, wanted in zip(texts, json.loads(done.stdout), expected, strict=True):
        assert found == wanted, repr(text)


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
