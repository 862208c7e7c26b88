"""Calibration texts: the user's, the built-in ones, and files that are none."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.berts import write_bert
from tests.support.installed import export_onnx

from edgepack.errors import UsageError
from edgepack.models.graph.sample_inputs import vocabulary
from edgepack.plugins.context import HostContext
from edgepack.quantization.calibration import (
    LARGEST_FILE,
    built_in_texts,
    calibration_feeds,
    input_moments,
    read_texts,
    varied_feeds,
)
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import Head
from edgepack.records.recipe import Material
from edgepack.records.target import ModelOptions
from edgepack.verifier.gate import verification_texts


def test_nothing_is_verified_on_what_it_was_calibrated_with() -> None:
    texts = built_in_texts()
    assert len(texts) >= 100
    assert not set(texts) & set(verification_texts())


def test_blank_lines_are_no_texts(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("one\n\n  \ntwo\n", encoding="utf-8")
    assert read_texts(tmp_path / "texts.txt") == ("one", "two")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "holds no calibration texts"), (b"\n \n", "holds no"), (b"\xff\xfe\x00", "not text in UTF-8")],
)
def test_files_that_hold_no_texts(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "texts.txt").write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        read_texts(tmp_path / "texts.txt")
    assert caught.value.hint
    with pytest.raises(UsageError, match="cannot read"):
        read_texts(tmp_path / "missing.txt")


def test_how_large_a_file_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LARGEST_FILE == 64 << 20
    monkeypatch.setattr("edgepack.quantization.calibration.LARGEST_FILE", 6)
    (tmp_path / "texts.txt").write_text("hello\n")
    assert read_texts(tmp_path / "texts.txt") == ("hello",)
    (tmp_path / "texts.txt").write_text("hello!\n")
    with pytest.raises(UsageError, match="too large"):
        read_texts(tmp_path / "texts.txt")


def test_a_graph_alone_is_run_on_random_tokens(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    feeds = list(calibration_feeds(model, Material()))
    assert len(feeds) == 64
    assert all(feed["input_ids"].shape[0] == 1 for feed in feeds)


def test_each_text_is_run_by_itself(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    feeds = list(calibration_feeds(model, Material(source=source, texts=("hello world", "a"))))
    assert [feed["input_ids"].shape for feed in feeds] == [(1, 4), (1, 3)]
    assert set(feeds[0]) == {"input_ids", "attention_mask", "token_type_ids"}
    assert len(list(calibration_feeds(model, Material(source=source)))) == len(built_in_texts())


def test_a_reranker_is_shown_pairs(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    head = Head(
        task="rank", labels=("score",), activation="sigmoid", file=tmp_path / "none", tensor="classifier"
    )
    document = json.loads(source.tokenizer.read_text())
    document["post_processor"]["pair"] = [
        *document["post_processor"]["single"],
        {"Sequence": {"id": "B", "type_id": 1}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
    ]
    source.tokenizer.write_text(json.dumps(document))
    ranks = Material(source=replace(source, head=head), texts=("hello world", "a"))
    feeds = list(calibration_feeds(model, ranks))
    assert [feed["token_type_ids"].tolist() for feed in feeds] == [[[0, 0, 0, 0, 1, 1]], [[0, 0, 0, 1, 1, 1]]]
    varied = [feed["input_ids"] for feed in varied_feeds(model, ranks, variants=20)][0::2]
    parting = varied[0][0, -1]
    assert len({tuple(ids[0]) for ids in varied}) > 10
    assert all(ids[0, 3] == parting for ids in varied)
    classes = replace(ranks, source=replace(source, head=replace(head, task="classes")))
    assert not any(feed["token_type_ids"].any() for feed in calibration_feeds(model, classes))


def test_texts_are_varied_but_for_their_special_tokens(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    material = Material(source=source, texts=("hello world " * 4, "a"))
    feeds = [feed["input_ids"] for feed in varied_feeds(model, material, variants=40)]
    assert len(feeds) == 2 * 41
    long = np.concatenate(feeds[0::2])
    assert (long[:, [0, -1]] == long[0, [0, -1]]).all()
    assert 0.12 < (long[1:, 1:-1] != long[0, 1:-1]).mean() < 0.3  # some are replaced by what they were
    assert (long < vocabulary(model)).all()
    again = [feed["input_ids"] for feed in varied_feeds(model, material, variants=40)]
    assert all((one == other).all() for one, other in zip(feeds, again, strict=True))


def test_other_texts_are_another_model(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    file = tmp_path / "texts.txt"
    files = set()
    for text in ("hello", "a small model"):
        file.write_text(text)
        options = ModelOptions(recipe="int8-static", calibration=file)
        files.add(prepare_model(source, options=options, context=context).file.read_bytes())
    assert len(files) == 2


def test_second_moments_are_those_of_what_the_matrices_take() -> None:
    """Two matrices take the same value; it is run through the graph once."""
    table = np.random.default_rng(5).normal(size=(50, 6)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "square"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(table[:6], "square")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rows = np.concatenate([table[feed["input_ids"][0]] for feed in calibration_feeds(model, Material())])
    found = input_moments(model, {"square": "rows", "other": "rows"}, Material())
    assert list(found) == ["rows"]
    np.testing.assert_allclose(found["rows"], rows.T @ rows, rtol=1e-4, atol=1e-3)
    assert input_moments(model, {}, Material()) == {}
