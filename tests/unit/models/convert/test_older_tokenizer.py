"""Repositories without tokenizer.json: the tokenizer that is made of their older files is the one that transformers makes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.tiny import WORDS, write_json

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.convert.older_tokenizer import converted_tokenizer
from edgepack.models.find.source import ingest
from edgepack.models.read.model_folder import ModelFolder
from edgepack.plugins.context import HostContext

ALPHABET = "abcdefghijklmnopqrstuvwxyz.,é漢"


def vocabulary(*further: str) -> str:
    words = [*WORDS, *(f"##{letter}" for letter in ALPHABET), *ALPHABET, *further]
    return "".join(f"{word}\n" for word in dict.fromkeys(words))


def write_vocabulary(folder: Path, *further: str) -> None:
    (folder / "vocab.txt").write_text(vocabulary(*further), encoding="utf-8")


def refused(folder: Path, config: dict[str, Any]) -> EdgepackError:
    write_json(folder / "config.json", config)
    with pytest.raises(EdgepackError) as caught:
        converted_tokenizer(ModelFolder(directory=folder))
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("kind", ["other", "bert"])
@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_a_class_that_is_not_known_is_named(file: str, kind: str, tmp_path: Path) -> None:
    """Embedders of Japanese have BERT's vocab.txt and no tokenizer.json: their words are MeCab's."""
    write_vocabulary(tmp_path)
    said = {"tokenizer_class": "BertJapaneseTokenizer"}
    write_json(tmp_path / "tokenizer_config.json", said if file == "tokenizer_config.json" else {})
    error = refused(tmp_path, {"model_type": kind, **(said if file == "config.json" else {})})
    assert isinstance(error, UnsupportedModelError)
    assert "BertJapaneseTokenizer" in error.message


@pytest.mark.parametrize("name", ["BertTokenizerFast", "MobileBertTokenizer", "PreTrainedTokenizerFast"])
def test_names_of_one_class_are_one(name: str, tmp_path: Path) -> None:
    write_vocabulary(tmp_path)
    write_json(tmp_path / "config.json", {"model_type": "bert"})
    plain = converted_tokenizer(ModelFolder(directory=tmp_path))
    write_json(tmp_path / "config.json", {"model_type": "bert", "tokenizer_class": name})
    assert converted_tokenizer(ModelFolder(directory=tmp_path)) == plain


def test_files_that_are_damaged_or_missing(tmp_path: Path) -> None:
    error = refused(tmp_path, {"model_type": "roberta"})
    assert error.message == "there is no tokenizer.json, and no vocab.json that RobertaTokenizer is made of"
    for content in (b"\x0a\x02\x0a", b"\x12\x03\x18\x02\x00", b"\xff" * 40, b'{"a": 1}'):
        (tmp_path / "spiece.model").write_bytes(content)
        assert isinstance(refused(tmp_path, {"model_type": "t5"}), ModelError)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("added_tokens.json", {"a": 1, "b": "x"}),
        ("added_tokens.json", {"a": [], "b": {}}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": "a"}}}),
        ("tokenizer_config.json", {"added_tokens_decoder": [1]}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"1": {}}}),
        ("tokenizer_config.json", {"additional_special_tokens": 5}),
        ("tokenizer_config.json", {"added_tokens_decoder": {}, "added": [5]}),
        ("special_tokens_map.json", {"sep_token": {}}),
    ],
)
def test_settings_of_other_kinds(tmp_path: Path, name: str, document: dict[str, Any]) -> None:
    write_vocabulary(tmp_path)
    write_json(tmp_path / name, document)
    error = refused(tmp_path, {"model_type": "bert"})
    assert isinstance(error, ModelError)
    assert error.message.startswith("no tokenizer can be made of vocab.txt: ")


def test_a_whole_model_with_a_vocabulary_alone(model: Path, context: HostContext) -> None:
    before = ingest(str(model), context=context)
    document = json.loads((model / "tokenizer.json").read_text())
    (model / "tokenizer.json").unlink()
    write_json(model / "tokenizer_config.json", {"model_max_length": 48, "mask_token": None})
    (model / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    source = ingest(str(model), context=context)
    made = json.loads(source.tokenizer.read_text())
    assert made["model"]["vocab"] == document["model"]["vocab"]
    assert made["normalizer"] == document["normalizer"]
    assert {file.path for file in source.files} == {file.path for file in before.files}
    assert not (model / "tokenizer.json").exists(), "the user's folder stays as it is"
    (model / "vocab.txt").write_text("".join(f"{word}\n" for word in (*WORDS, "more")))
    with pytest.raises(
        ModelError, match=r"tokenizer\.json has token 10, the model's embedding table has 10 rows"
    ):
        ingest(str(model), context=context)
