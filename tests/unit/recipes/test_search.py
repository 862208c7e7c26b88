"""A search on a small random model: everything is tried once, and remembered."""

from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file
from tests.support.berts import write_bert
from tests.support.checkpoints import write_head
from tests.support.compare import Load

from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.recipes.search import layers_of, mixed_candidates, search
from edgepack.records.target import ModelOptions

TEXTS = ("hello world", "a small model", "hello", "models models a", "world", "a a small")


@pytest.fixture(autouse=True)
def few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgepack.recipes.search.verification_texts", lambda: TEXTS)


def test_layers_are_found_by_the_numbers_in_their_names(load: Load) -> None:
    assert layers_of(load()) == ["encoder.layer.0.*", "encoder.layer.1.*"]


def test_the_most_sensitive_layers_become_int8_first() -> None:
    first, second = mixed_candidates({"a.0.*": 0.01, "a.1.*": 0.05, "a.2.*": 0.02})
    assert first.name == "int4, int8 in 1 of 3 layers"
    assert first.recipe[1].parameters["layers"] == ["a.0.*", "a.2.*"]  # type: ignore[union-attr]
    assert second.recipe[1].parameters["layers"] == ["a.0.*"]  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_search_is_taken_up_where_it_stopped(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = write_bert(tmp_path / "model")
    options = ModelOptions(min_cosine=0.9)
    points = search(source, options=options, names=("fp32", "int8"), context=context)
    assert [point.name for point in points] == ["fp32", "int8", "int4, int8 in 1 of 2 layers"]
    assert points[0].cosine > 0.99999 > points[1].cosine
    assert points[1].bytes < points[0].bytes
    assert all(point.milliseconds > 0 and point.compressed_bytes < point.bytes for point in points)

    def measured_again(*arguments: object, **more: object) -> None:
        raise AssertionError("it is in the store")

    monkeypatch.setattr("edgepack.recipes.search.measure_quality", measured_again)
    monkeypatch.setattr("edgepack.recipes.search.model_latency", measured_again)
    assert search(source, options=options, names=("fp32", "int8"), context=context) == points


@pytest.mark.slow
def test_the_gate_decides_what_is_within(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    points = search(
        source, options=ModelOptions(min_cosine=0.99999), names=("fp32", "int8"), mixed=False, context=context
    )
    assert [point.within for point in points] == [True, False]


@pytest.mark.slow
def test_a_reranker_is_judged_by_its_scores(tmp_path: Path, context: HostContext) -> None:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", num_labels=1)
    source = ingest(str(folder), context=context)
    names = ("fp32", "int8")
    full, int8 = search(source, options=ModelOptions(), names=names, mixed=False, context=context)
    assert full.quality.scores is not None and int8.quality.scores is not None
    assert full.quality.scores.tau == 1.0 and full.within
    assert int8.quality.scores.tau < 0.98 and not int8.within, "weights of random noise"
    assert search(source, options=ModelOptions(), names=names, mixed=False, context=context)[1] == int8
    weights = load_file(folder / "model.safetensors")
    # Another last layer behind the same model file.
    weights["classifier.weight"] = weights["classifier.weight"][:, ::-1].copy()
    save_file(weights, folder / "model.safetensors")
    source = ingest(str(folder), context=context)
    other = search(source, options=ModelOptions(), names=names, mixed=False, context=context)[1]
    assert other.bytes == int8.bytes and other.quality.scores != int8.quality.scores
