"""Models and texts that are wrong or odd, each refused in words or done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.unit.models.berts import source_of, write_bert
from tests.unit.models.graphs import token_graph, vector_graph, write
from tests.unit.models.tiny import tokenizer_document, write_json

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.export.from_source import export_onnx
from edgepack.models.find.folder import read_folder
from edgepack.models.reference import embed_with_onnxruntime, well_formed
from edgepack.records.model import ModelSource


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_bert(tmp_path / "model")[0]


def refused(source: ModelSource, graph: onnx.ModelProto, tmp_path: Path) -> EdgepackError:
    write(graph, source.directory / "graph.onnx")
    with pytest.raises(EdgepackError) as caught:
        export_onnx(source_of(source.directory, onnx="graph.onnx"), tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists(), "nothing half-written"
    return caught.value


def test_two_opsets_in_one_graph(source: ModelSource, tmp_path: Path) -> None:
    graph = token_graph(source, source.directory / "graph")
    graph.opset_import.append(helper.make_opsetid("", 13))
    error = refused(source, graph, tmp_path)
    assert isinstance(error, ModelError)
    assert "several opsets of ai.onnx: 13, 17" in error.message


def test_weights_of_a_graph_that_are_no_numbers(source: ModelSource, tmp_path: Path) -> None:
    graph = token_graph(source, source.directory / "graph")
    tensor = next(each for each in graph.graph.initializer if each.name.endswith("query.weight"))
    spoilt = numpy_helper.to_array(tensor).copy()
    spoilt[3, 4] = np.nan
    tensor.CopyFrom(numpy_helper.from_array(spoilt, tensor.name))
    error = refused(source, graph, tmp_path)
    assert isinstance(error, ModelError)
    assert f"{tensor.name} holds NaN" in error.message


def test_weights_of_a_graph_that_are_infinite(source: ModelSource, tmp_path: Path) -> None:
    graph = token_graph(source, source.directory / "graph")
    tensor = next(each for each in graph.graph.initializer if each.name.endswith("word_embeddings.weight"))
    spoilt = numpy_helper.to_array(tensor).copy()
    spoilt[:] = np.inf
    tensor.CopyFrom(numpy_helper.from_array(spoilt, tensor.name))
    assert "not finite" in refused(source, graph, tmp_path).message


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "deep/../../secret.bin"])
def test_external_data_outside_the_folder(source: ModelSource, tmp_path: Path, location: str) -> None:
    (source.directory.parent / "secret.bin").write_bytes(bytes(4 * 60 * 32))
    error = refused(source, with_external_table(source, location), tmp_path)
    assert isinstance(error, ModelError)
    assert "points out of the model's folder" in error.message


def test_external_data_that_are_missing(source: ModelSource, tmp_path: Path) -> None:
    error = refused(source, with_external_table(source, "weights.bin"), tmp_path)
    assert isinstance(error, ModelError)
    assert "weights.bin, which is not beside it" in error.message


def with_external_table(source: ModelSource, location: str) -> onnx.ModelProto:
    graph = token_graph(source, source.directory / "graph")
    tensor = next(each for each in graph.graph.initializer if each.name.endswith("word_embeddings.weight"))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return graph


def test_a_graph_of_more_than_two_gigabytes(source: ModelSource, tmp_path: Path) -> None:
    """A sparse file: it has that many bytes, and takes no room."""
    graph = with_external_table(source, "weights.bin")
    with (source.directory / "weights.bin").open("wb") as stream:
        stream.truncate(2**31 + 1)
    error = refused(source, graph, tmp_path)
    assert isinstance(error, UnsupportedModelError)
    assert "2 GB" in error.message


def test_weights_of_more_than_two_gigabytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    rows = 700_000
    header = json.dumps(
        {"embeddings.word_embeddings.weight": entry("F16", [rows, 1024], [0, 2 * 1024 * rows])}
    ).encode()
    assert source.weights is not None
    with source.weights.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + 2 * 1024 * rows)
    with pytest.raises(UnsupportedModelError, match=r"2\.9 GB of weights in full precision"):
        export_onnx(source, tmp_path / "out.onnx")


def entry(dtype: str, shape: list[int], offsets: list[int]) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_a_tokenizer_of_another_model_beside_a_graph(source: ModelSource, tmp_path: Path) -> None:
    """Nothing but the graph's own table says how many tokens there are."""
    folder = tmp_path / "bare"
    folder.mkdir()
    write(vector_graph(source, folder / "graph"), folder / "model.onnx")
    document = tokenizer_document()
    document["model"]["vocab"] |= {f"word{number}": 10 + number for number in range(100)}
    write_json(folder / "tokenizer.json", document)
    with pytest.raises(ModelError, match=r"token 109, the model's embedding table has 60 rows"):
        read_folder(folder, name="bare", origin="bare", note=lambda _: None, onnx=folder / "model.onnx")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "hello " * 10_000,
        "🍕👩‍👩‍👧‍👦🏳️‍🌈",
        "a\ud800b",
        "\udfff",
        "\x00\x01",
        "a\u0301" * 500,
        "\U0010ffff",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_odd_texts_have_vectors(source: ModelSource, tmp_path: Path, text: str) -> None:
    exported = export_onnx(source, tmp_path / "model.onnx")
    (vector,) = embed_with_onnxruntime(exported, source, [text])
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
    together = embed_with_onnxruntime(exported, source, ["hello", text, "a small model"], batch_size=3)
    np.testing.assert_allclose(together[1], vector, atol=1e-5)


def test_an_unpaired_surrogate_counts_as_the_replacement_character() -> None:
    assert well_formed("a\ud800b") == "a\ufffdb"
    assert well_formed("🍕 é \U0010ffff") == "🍕 é \U0010ffff"


def test_an_empty_text_without_special_tokens(source: ModelSource, tmp_path: Path) -> None:
    document = tokenizer_document()
    document["post_processor"] = None
    write_json(source.tokenizer, document)
    exported = export_onnx(source, tmp_path / "model.onnx")
    vectors = embed_with_onnxruntime(exported, replace(source, files=()), ["", "hello"], batch_size=2)
    assert np.isfinite(vectors).all()
