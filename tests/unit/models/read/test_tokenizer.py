"""The tokenizer that is shipped is the one that the reference uses."""

import json
from pathlib import Path

import pytest
from tests.support.tiny import WORDS, tokenizer_document, write_json

from edgepack.models.find.source import ingest
from edgepack.models.read.tokenizer import highest_token, load_tokenizer, minimal_json, open_tokenizer
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource

TEXTS = ("", "a small model", "Hello WORLD", "models", "héllo — unknown", "a " * 500, "你好 world\n\thello")


def test_nothing_is_padded(model: Path, context: HostContext) -> None:
    tokenizer = load_tokenizer(ingest(str(model), context=context))
    assert tokenizer.encode("a small model").tokens == ["[CLS]", "a", "small", "model", "[SEP]"]


def test_texts_are_cut_to_the_models_length(model: Path, context: HostContext) -> None:
    source = ingest(str(model), context=context)
    encoded = load_tokenizer(source).encode("a " * 500)
    assert len(encoded.ids) == source.max_length == 32
    assert (encoded.tokens[0], encoded.tokens[-1]) == ("[CLS]", "[SEP]")


def test_the_shipped_document_is_small_and_always_the_same(model: Path, context: HostContext) -> None:
    source = ingest(str(model), context=context)
    shipped = minimal_json(source)
    document = json.loads(shipped)
    assert document["truncation"] is None
    assert document["padding"] is None
    assert len(shipped) < source.tokenizer.stat().st_size
    assert minimal_json(source) == shipped
    original = json.loads(source.tokenizer.read_text())
    same = set(original) - {"truncation", "padding"}
    assert {key: document[key] for key in same} == {key: original[key] for key in same}


def test_words_are_shipped_as_they_are_written(model: Path, context: HostContext) -> None:
    document = tokenizer_document()
    del document["model"]["vocab"]["world"]
    document["model"]["vocab"]["wörld"] = WORDS.index("world")
    write_json(model / "tokenizer.json", document)
    assert '"wörld":9' in minimal_json(ingest(str(model), context=context))


@pytest.mark.parametrize("lowered", [False, True])
def test_lowercasing_asked_for_beside_the_tokenizer_is_put_into_it(
    model: Path, context: HostContext, lowered: bool
) -> None:
    write_json(model / "tokenizer.json", tokenizer_document(lowercase=False))
    write_json(model / "sentence_bert_config.json", {"max_seq_length": 32, "do_lower_case": lowered})
    tokens = load_tokenizer(ingest(str(model), context=context)).encode("Hello World").tokens
    assert tokens == ["[CLS]", *(["hello", "world"] if lowered else ["[UNK]"] * 2), "[SEP]"]


def test_lowercasing_for_a_tokenizer_without_a_normalizer(model: Path, context: HostContext) -> None:
    write_json(model / "tokenizer.json", {**tokenizer_document(), "normalizer": None})
    write_json(model / "sentence_bert_config.json", {"do_lower_case": True})
    assert load_tokenizer(ingest(str(model), context=context)).encode("HELLO").tokens == [
        "[CLS]",
        "hello",
        "[SEP]",
    ]


def test_the_highest_token_counts_added_ones(model: Path) -> None:
    document = tokenizer_document()
    assert highest_token(open_tokenizer(model / "tokenizer.json")) == 9
    document["added_tokens"].append({**document["added_tokens"][0], "id": 41, "content": "[EXTRA]"})
    write_json(model / "tokenizer.json", document)
    assert highest_token(open_tokenizer(model / "tokenizer.json")) >= 10


def test_shipped_and_original_give_the_same_tokens(model: Path, context: HostContext) -> None:
    _compare(ingest(str(model), context=context))


@pytest.mark.e2e
def test_shipped_and_original_give_the_same_tokens_for_the_real_model(minilm: ModelSource) -> None:
    _compare(minilm)


def _compare(source: ModelSource) -> None:
    from tokenizers import Tokenizer

    original = Tokenizer.from_file(str(source.tokenizer))
    original.no_padding()
    original.enable_truncation(source.max_length)
    shipped = load_tokenizer(source)
    for text in TEXTS:
        assert shipped.encode(text).ids == original.encode(text).ids
        assert shipped.encode(text).type_ids == original.encode(text).type_ids
