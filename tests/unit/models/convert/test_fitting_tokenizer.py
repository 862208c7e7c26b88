"""Special tokens that a model has no vector of, as EmbeddingGemma's tokenizer has one."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.tiny import WORDS, tokenizer_document, write_json

from edgepack.errors import ModelError
from edgepack.models.find.source import ingest
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.plugins.context import HostContext

PAST = len(WORDS)
IMAGE = {"id": PAST, "content": "<image>", "special": True, "normalized": False} | dict.fromkeys(
    ("single_word", "lstrip", "rstrip"), False
)


def write_tokenizer(model: Path, *added: dict[str, Any]) -> dict[str, Any]:
    document = tokenizer_document()
    document["added_tokens"] += added
    write_json(model / "tokenizer.json", document)
    return document


def test_a_special_token_past_the_table_is_plain_text(model: Path, context: HostContext) -> None:
    before = load_tokenizer(ingest(str(model), context=context))
    document = write_tokenizer(model, IMAGE)
    source = ingest(str(model), context=context)
    for text in ("hello <image> world", "<image>", "a small model"):
        assert load_tokenizer(source).encode(text).ids == before.encode(text).ids
    assert {"tokenizer.json"} <= {file.path for file in source.files}
    assert json.loads((model / "tokenizer.json").read_text()) == document, "the user's folder stays as it is"


def test_words_past_the_table_are_of_another_model(model: Path, context: HostContext) -> None:
    write_tokenizer(model, IMAGE, {**IMAGE, "id": PAST + 1, "content": "more", "special": False})
    with pytest.raises(
        ModelError, match=r"tokenizer\.json has token 11, the model's embedding table has 10 r"
    ):
        ingest(str(model), context=context)


def test_what_is_put_around_each_text_must_be_in_the_table(model: Path, context: HostContext) -> None:
    document = write_tokenizer(model, IMAGE)
    frame = document["post_processor"]
    frame["single"].append({"SpecialToken": {"id": "<image>", "type_id": 0}})
    frame["special_tokens"]["<image>"] = {"id": "<image>", "ids": [PAST], "tokens": ["<image>"]}
    write_json(model / "tokenizer.json", document)
    write_json(model / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    with pytest.raises(ModelError, match=r"tokenizer\.json has token 10") as caught:
        ingest(str(model), context=context)
    assert caught.value.hint == "tokenizer and weights are of different models"
