"""The tokenizer that is shipped is the one that the reference uses."""

import base64
import json
from pathlib import Path

import pytest
from tests.support.tiny import WORDS, tokenizer_document, write_json

from edgepack.errors import UnsupportedModelError
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
    write_json(model / "tokenizer_config.json", {"do_lower_case": False})
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


TEMPLATE = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}
TEN_TIMES = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
A = {"Sequence": {"id": "A", "type_id": 0}}
MANY = {"id": "[CLS]", "ids": [1] * 300, "tokens": ["[CLS]"] * 300}


@pytest.mark.parametrize(
    ("part", "step"),
    [
        ("normalizer", {"type": "Sequence", "normalizers": [TEN_TIMES] * 12}),
        (
            "normalizer",
            {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [TEN_TIMES] * 3}]},
        ),
        ("normalizer", {"type": "Replace", "pattern": {"Regex": ""}, "content": "a" * 300}),
        (
            "normalizer",
            {"type": "Sequence", "normalizers": [{"pattern": {"String": "a"}, "content": "a" * 300}]},
        ),
        ("normalizer", {"type": "Prepend", "prepend": "a" * 300}),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [BYTES] * 40}),
        ("post_processor", {**TEMPLATE, "single": [A] * 300}),
        ("post_processor", {"type": "Sequence", "processors": [{**TEMPLATE, "single": [A] * 2}] * 30}),
        ("post_processor", {**TEMPLATE, "single": [A], "special_tokens": {"[CLS]": MANY}}),
    ],
)
def test_a_tokenizer_that_fills_memory_with_one_word_is_refused(
    model: Path, context: HostContext, part: str, step: dict[str, object]
) -> None:
    """The tokenizers library ends the process where it gets no memory: nothing can be caught."""
    source = ingest(str(model), context=context)
    write_json(model / "tokenizer.json", {**tokenizer_document(), part: step})
    with pytest.raises(UnsupportedModelError, match="may make a text more than 256 times as long"):
        load_tokenizer(source)
    with pytest.raises(UnsupportedModelError, match="may make a text more than 256 times as long"):
        open_tokenizer(model / "tokenizer.json")


def test_a_charsmap_that_makes_a_book_of_a_letter_is_refused(model: Path, context: HostContext) -> None:
    charsmap = (4).to_bytes(4, "little") + bytes(4) + b"b" * 300 + b"\0"
    step = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    write_json(model / "tokenizer.json", {**tokenizer_document(), "normalizer": step})
    with pytest.raises(UnsupportedModelError, match="may make a text more than 256 times as long"):
        open_tokenizer(model / "tokenizer.json")
