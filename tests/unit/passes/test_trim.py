"""Trimming: vectors stay, and what no text reaches is zero."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.support.berts import some_tokens, write_bert
from tests.support.compare import Load, cosines, unexpected
from tests.support.tiny import write_json

from edgepack.passes.trim import short_floats, trim, unreachable_tokens
from edgepack.records.model import ModelSource
from edgepack.records.outputs import MultiVector, Outputs, Side
from edgepack.records.recipe import Material

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[unused0]",
    "...",
    ".",
    "word",
    "##s",
    "##.",
    "Big",
    "é",
    "文",
    "##文",
    "##",
]


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    made, _ = write_bert(tmp_path / "source")
    document = json.loads(made.tokenizer.read_text())
    document["model"]["vocab"] = {piece: number for number, piece in enumerate(PIECES)}
    document["added_tokens"] = []
    document["normalizer"] = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    document["pre_tokenizer"] = {"type": "BertPreTokenizer"}
    write_json(made.tokenizer, document)
    return made


UNREACHABLE = ["[PAD]", "[CLS]", "[SEP]", "[unused0]", "...", "##.", "Big", "é", "##文", "##"]


@pytest.fixture
def few_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask a normalizer about each there is takes seconds; the first of them are those of the vocabulary."""
    monkeypatch.setattr("edgepack.passes.trim.sys", SimpleNamespace(maxunicode=0xFFFF))


def test_tokens_that_are_always_cut_up_or_changed_are_found(source: ModelSource) -> None:
    assert [PIECES[number] for number in unreachable_tokens(source)] == UNREACHABLE


@pytest.mark.usefixtures("few_characters")
def test_added_tokens_and_other_tokenizers_are_left_alone(source: ModelSource) -> None:
    document = json.loads(source.tokenizer.read_text())
    write_json(
        source.tokenizer,
        {
            **document,
            "added_tokens": [
                {
                    "id": 4,
                    "content": "[unused0]",
                    "special": True,
                    **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
                }
            ],
        },
    )
    assert 4 not in unreachable_tokens(source)
    write_json(source.tokenizer, document)
    side = Side(marker=4, expand=PIECES.index("..."))
    named = Outputs(multi_vector=MultiVector(dense=(), dimension=8, query=side, document=Side(skip=(3,))))
    spared = {*unreachable_tokens(source)} - {*unreachable_tokens(replace(source, outputs=named))}
    assert spared == {3, 4, PIECES.index("...")}
    write_json(source.tokenizer, {**document, "pre_tokenizer": {"type": "Whitespace"}})
    assert unreachable_tokens(source) == []


@pytest.mark.usefixtures("few_characters")
def test_rows_that_no_text_reaches_are_zero_and_vectors_stay(load: Load, source: ModelSource) -> None:
    model = load()
    trimmed = trim(model, unexpected, Material(source=replace(source, max_length=12)))
    arrays = {each.name: numpy_helper.to_array(each) for each in trimmed.graph.initializer}
    positions = next(array for name, array in arrays.items() if "position_embeddings" in name)
    assert not positions[12:].any() and positions[:12].any(axis=1).all()
    words = next(array for name, array in arrays.items() if "word_embeddings" in name)
    unreachable = [PIECES.index(piece) for piece in UNREACHABLE]
    assert np.flatnonzero(~words.any(axis=1)).tolist() == unreachable
    tokens = some_tokens()
    reachable = np.where(np.isin(tokens.ids, unreachable), 7, tokens.ids)
    assert cosines(model, trimmed, replace(tokens, ids=reachable)).min() > 0.9999


def test_without_a_tokenizer_floats_alone_are_shortened(load: Load) -> None:
    model = load()
    trimmed = trim(model, unexpected, Material())
    assert cosines(model, trimmed, some_tokens()).min() > 0.9999
    onnx.checker.check_model(trimmed)
    before = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for tensor in trimmed.graph.initializer:
        if tensor.name.endswith(".short"):
            assert not (numpy_helper.to_array(tensor).view(np.uint32) & 0xFFFF).any()
        else:
            np.testing.assert_array_equal(numpy_helper.to_array(tensor), before[tensor.name])


def test_short_floats_are_the_nearest_of_eight_digits() -> None:
    values = np.random.default_rng(6).normal(size=(50, 1)).astype(np.float32)
    short = short_floats(values)
    assert short.shape == values.shape and np.abs(short / values - 1).max() <= 2**-8
    np.testing.assert_array_equal(short_floats(short), short)
    plain = np.array([0, -0.5, 2], np.float32)
    np.testing.assert_array_equal(short_floats(plain), plain)
