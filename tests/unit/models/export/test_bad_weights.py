"""Weights and configurations that are damaged, contradictory or of another architecture."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.support.berts import change_config, change_weights, write_bert
from tests.support.families import write_family
from tests.support.installed import export_onnx

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.records.model import ModelSource

QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_bert(tmp_path / "model")[0]


def refused(source: ModelSource, tmp_path: Path) -> EdgepackError:
    """The error, after making sure that nothing was left behind."""
    destination = tmp_path / "out" / "model.onnx"
    with pytest.raises(EdgepackError) as caught:
        export_onnx(source, destination)
    assert not destination.parent.exists() or not list(destination.parent.iterdir())
    return caught.value


def test_a_missing_tensor_is_named(source: ModelSource, tmp_path: Path) -> None:
    change_weights(source, {}, drop=[QUERY])
    error = refused(source, tmp_path)
    assert isinstance(error, ModelError)
    assert error.message == f"model.safetensors has no tensor {QUERY}"


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("bert", {"hidden_act": {}}, "hidden_act {} is not supported"),
        ("albert", {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, and there are"),
        ("llama", {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, and there are"),
        ("qwen2", {"num_attention_heads": 10**9}, "num_attention_heads is 1000000000, and there are"),
        ("albert", {"max_position_embeddings": 10**10}, "config.json takes more memory"),
        ("deberta-v2", {"max_position_embeddings": 10**9}, "config.json takes more memory"),
        ("embedding_gemma2_text", {"rope_parameters": 5}, "config.json has a value that no embedding_gemma2_text has"),
    ],
)  # fmt: skip
def test_values_that_no_model_has(tmp_path: Path, kind: str, changes: dict[str, Any], said: str) -> None:
    """Some of them stood for tens of gigabytes."""
    source, _ = write_family(tmp_path / "model", kind)
    error = refused(change_config(source, **changes), tmp_path)
    assert said in error.message


def test_a_layer_more_than_config_states_is_named(source: ModelSource, tmp_path: Path) -> None:
    error = refused(change_config(source, num_hidden_layers=1), tmp_path)
    assert isinstance(error, ModelError)
    assert "encoder.layer.1." in error.message and "a layer more than config.json states" in error.message
    assert "of different models" in (error.hint or "")


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma"),
        ("embeddings.word_embeddings.weight", "bert.embeddings.word_embeddings.weight"),
        (QUERY, f"bert.{QUERY}"),
    ],
)
def test_a_tensor_by_two_names(source: ModelSource, tmp_path: Path, own: str, other: str) -> None:
    assert source.weights is not None
    tensors = load_file(source.weights)
    words = "embeddings.word_embeddings.weight"
    change_weights(source, {f"bert.{words}": tensors[words], other: tensors[own]})
    export_onnx(source, tmp_path / "model.onnx")
    change_weights(source, {other: tensors[own] + 1})
    message = refused(source, tmp_path).message
    assert f"has {own} and {other}, which are two names" in message


def test_layers_of_another_part_do_not_count(source: ModelSource, tmp_path: Path) -> None:
    change_weights(
        source,
        {"vision.layer.0.weight": np.zeros(3, np.float32), "classifier.0.weight": np.zeros(3, np.float32)},
    )
    export_onnx(source, tmp_path / "model.onnx")


def test_weights_without_any_bert_in_them(source: ModelSource, tmp_path: Path) -> None:
    change_weights(source, {}, drop=["embeddings.word_embeddings.weight"])
    assert "no tensor embeddings.word_embeddings.weight" in refused(source, tmp_path).message


def test_a_wrong_shape_names_both(source: ModelSource, tmp_path: Path) -> None:
    change_weights(source, {QUERY: np.zeros((32, 16), np.float32)})
    error = refused(source, tmp_path)
    assert isinstance(error, ModelError)
    assert f"{QUERY} has shape [32, 16], config.json requires [32, 32]" in error.message


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(source: ModelSource, tmp_path: Path, value: float) -> None:
    damaged = np.zeros((32, 32), np.float32)
    damaged[3, 5] = value
    change_weights(source, {QUERY: damaged})
    error = refused(source, tmp_path)
    assert isinstance(error, ModelError)
    assert f"{QUERY} holds NaN or infinite values" in error.message


@pytest.mark.parametrize("left", [4, 100, 3_000, -1], ids=lambda left: f"{left} bytes")
def test_truncated_weights(source: ModelSource, tmp_path: Path, left: int) -> None:
    assert source.weights is not None
    source.weights.write_bytes(source.weights.read_bytes()[:left])
    error = refused(source, tmp_path)
    assert isinstance(error, ModelError)
    assert "model.safetensors" in error.message


def test_quantized_weights_are_not_taken_for_full_precision(source: ModelSource, tmp_path: Path) -> None:
    change_weights(source, {QUERY: np.zeros((32, 32), np.int8)})
    error = refused(source, tmp_path)
    assert isinstance(error, UnsupportedModelError)
    assert f"{QUERY} is of type I8" in error.message


def test_a_config_that_names_no_architecture(source: ModelSource, tmp_path: Path) -> None:
    config = {key: value for key, value in source.config.items() if key != "model_type"}
    error = refused(replace(source, config=config), tmp_path)
    assert isinstance(error, ModelError)
    assert "model_type" in error.message


def test_a_source_with_neither_weights_nor_graph(source: ModelSource, tmp_path: Path) -> None:
    assert isinstance(refused(replace(source, weights=None), tmp_path), ModelError)


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query", "rotary"])
def test_other_position_embeddings_are_refused_by_name(
    source: ModelSource, tmp_path: Path, kind: str
) -> None:
    error = refused(change_config(source, position_embedding_type=kind), tmp_path)
    assert isinstance(error, UnsupportedModelError)
    assert kind in error.message


def test_an_unknown_activation_says_which_there_are(source: ModelSource, tmp_path: Path) -> None:
    error = refused(change_config(source, hidden_act="snake"), tmp_path)
    assert isinstance(error, UnsupportedModelError)
    assert "'snake'" in error.message
    assert error.hint is not None and "gelu_new" in error.hint


def test_decoders_are_refused(source: ModelSource, tmp_path: Path) -> None:
    assert isinstance(refused(change_config(source, is_decoder=True), tmp_path), UnsupportedModelError)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": None}, "hidden_size is None"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"num_attention_heads": 5}, "cannot be shared among 5 attention heads"),
        ({"hidden_size": 64}, "64 dimensions, 32 were announced"),
        ({"num_hidden_layers": 3}, "no tensor encoder.layer.2."),
    ],
    ids=str,
)
def test_a_config_that_makes_no_sense(
    source: ModelSource, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    error = refused(change_config(source, **changes), tmp_path)
    assert isinstance(error, ModelError)
    assert said in error.message


def test_a_model_that_no_file_can_hold_in_int8_either(
    source: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack.models.export.from_source.LARGEST_MODEL", 12_500)
    monkeypatch.setattr("edgepack.models.export.from_source.LARGEST_WEIGHTS", 50_000)
    error = refused(source, tmp_path)
    assert isinstance(error, UnsupportedModelError)
    assert "0.0 GB of weights in full precision; edgepack takes 0 GB" in error.message
    assert error.hint


def test_weights_of_too_many_gigabytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    rows = 2_200_000
    header = json.dumps(
        {"embeddings.word_embeddings.weight": entry("F16", [rows, 1024], [0, 2 * 1024 * rows])}
    ).encode()
    assert source.weights is not None
    with source.weights.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + 2 * 1024 * rows)
    with pytest.raises(
        UnsupportedModelError, match=r"9\.0 GB of weights in full precision; edgepack takes 9 GB"
    ):
        export_onnx(source, tmp_path / "out.onnx")


def entry(dtype: str, shape: list[int], offsets: list[int]) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}
