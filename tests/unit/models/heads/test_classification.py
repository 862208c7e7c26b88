"""Rerankers and classifiers: their heads as transformers computes them, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.checkpoints import change, says, write_felt, write_head
from tests.support.tiny import write_json

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.heads.classification import head_weights
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.recipes.model_files import convert_model, quantize_model
from edgepack.records.target import ModelOptions, Reading

KINDS = (
    "albert",
    "bert",
    "camembert",
    "deberta-v2",
    "distilbert",
    "gte",
    "modernbert",
    "mpnet",
    "roberta",
    "xlm-roberta",
)
HEAD = "ForSequenceClassification"
PAIRS = [("hello world", "a small model"), ("a", "hello world models " * 9), ("", "a")]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        *((kind, {"num_labels": 1}) for kind in KINDS),
        ("bert", {"num_labels": 3}),
        ("deberta-v2", {"num_labels": 3, "pooler_hidden_act": "tanh"}),
        ("modernbert", {"num_labels": 3, "classifier_pooling": "mean"}),
        ("modernbert", {"num_labels": 3, "classifier_bias": True, "norm_bias": True}),
    ],
)
def test_numbers_are_those_of_transformers(
    tmp_path: Path, context: HostContext, kind: str, shape: dict[str, Any]
) -> None:
    model = write_felt(tmp_path / "model", kind, HEAD, **shape)
    source = ingest(str(tmp_path / "model"), context=context)
    assert source.head is not None
    assert source.head.task == ("rank" if shape["num_labels"] == 1 else "classes")
    weight, bias = head_weights(source.head, source.dimension)
    ours = reference_vectors(source, PAIRS, context=context) @ weight.T + bias
    tokenizer = load_tokenizer(source)
    theirs = np.stack([says(model, "logits", tokenizer.encode(*pair)) for pair in PAIRS])
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "sigmoid"),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, "identity"),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, "identity"),
    ],
)
def test_the_activation_is_the_models_own(
    tmp_path: Path, context: HostContext, fields: dict[str, Any], expected: str
) -> None:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", num_labels=1)
    change(folder / "config.json", **fields)
    head = ingest(str(folder), context=context).head
    assert head and (head.activation, head.labels) == (expected, ("score",))


@pytest.mark.parametrize("activation", ["Sigmoid", "Softmax"])
def test_so_it_is_of_several_labels(tmp_path: Path, context: HostContext, activation: str) -> None:
    labels = {"0": "good", "1": "bad", "2": "neither"}
    write_felt(tmp_path / "model", "bert", HEAD, num_labels=3)
    folder = tmp_path / "model"
    said = f"torch.nn.modules.activation.{activation}"
    write_json(folder / "config_sentence_transformers.json", {"activation_fn": said})
    change(folder / "config.json", problem_type="multi_label_classification", id2label=labels)
    head = ingest(str(folder), context=context).head
    assert head and head.activation == activation.lower()


@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("sigmoid", "softmax")),
        ({"problem_type": "single_label_classification"}, ("sigmoid", "softmax")),
        ({"problem_type": "multi_label_classification"}, ("sigmoid", "sigmoid")),
        ({"problem_type": "regression"}, ("identity", "identity")),
        ({"sentence_transformers": {"version": "5.0"}}, ("sigmoid", "identity")),
    ],
)
def test_scores_are_those_of_whoever_saved_the_model(
    tmp_path: Path, context: HostContext, labels: int, fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    write_felt(tmp_path / "model", "bert", HEAD, num_labels=labels)
    named = {str(at): f"label {at}" for at in range(labels)}
    change(tmp_path / "model/config.json", id2label=named, **fields)
    source = ingest(str(tmp_path / "model"), context=context)
    assert source.head and source.head.activation == expected[labels > 1]
    warned = any("CrossEncoder gives their sigmoid" in each for each in source.warnings)
    assert warned == ("regression" in str(fields) and labels == 1)


def test_an_unknown_problem_is_refused(tmp_path: Path, context: HostContext) -> None:
    write_felt(tmp_path / "model", "bert", HEAD, num_labels=1)
    change(tmp_path / "model/config.json", problem_type="ranking")
    with pytest.raises(ModelError, match="problem_type is 'ranking'"):
        ingest(str(tmp_path / "model"), context=context)


def test_a_classifier_has_its_labels(tmp_path: Path, context: HostContext) -> None:
    labels = {0: "good", 1: "bad"}
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", id2label=labels)
    head = ingest(str(folder), context=context).head
    assert head and (head.task, head.labels, head.activation) == ("classes", ("good", "bad"), "softmax")
    change(folder / "config.json", problem_type="multi_label_classification", id2label=labels)
    head = ingest(str(folder), context=context).head
    assert head and head.activation == "sigmoid"


def refused(folder: Path, context: HostContext, reading: Reading | None = None) -> EdgepackError:
    with pytest.raises((UnsupportedModelError, ModelError)) as caught:
        ingest(str(folder), reading=reading or Reading(), context=context)
    assert caught.value.hint
    return caught.value


def test_a_classifier_without_labels_is_refused(tmp_path: Path, context: HostContext) -> None:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification")
    error = refused(folder, context)
    assert error.message == "model is a classifier of 2 labels, and config.json does not name them"
    assert "id2label" in str(error.hint)
    # Nobody counts that far: it took minutes, and all the memory that a command may take.
    change(folder / "config.json", num_labels=10**12, id2label={0: "good", 1: "bad"})
    assert "is a classifier of 1000000000000 labels" in refused(folder, context).message


def test_labels_of_another_model_are_refused(tmp_path: Path, context: HostContext) -> None:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", num_labels=3)
    change(folder / "config.json", id2label={"0": "a", "1": "b"})
    assert (
        "config.json describes 2 labels, model.safetensors has a head for 3"
        in refused(folder, context).message
    )


def test_an_unknown_activation_is_refused(tmp_path: Path, context: HostContext) -> None:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", num_labels=1)
    write_json(folder / "config_sentence_transformers.json", {"activation_fn": ["my.Own"]})
    with pytest.raises(UnsupportedModelError, match="activated by"):
        ingest(str(folder), context=context)
    write_json(folder / "config_sentence_transformers.json", {"activation_fn": "my.Own"})
    assert "activated by my.Own" in refused(folder, context).message


def test_a_head_that_is_not_there_is_named(tmp_path: Path, context: HostContext) -> None:
    folder = write_head(tmp_path / "model", "BertModel", id2label={0: "good", 1: "bad"})
    document = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**document, "architectures": ["BertForSequenceClassification"]})
    assert "has no classifier.weight" in refused(folder, context).message


@pytest.mark.parametrize("write", [quantize_model, convert_model])
def test_no_model_file_is_written_without_its_head(
    tmp_path: Path, context: HostContext, write: Callable[..., object]
) -> None:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", num_labels=1)
    source = ingest(str(folder), context=context)
    options = {"options": ModelOptions()} if write is quantize_model else {}
    with pytest.raises(UnsupportedModelError, match="is a reranker, whose last layer the program"):
        write(source, tmp_path / "made", **options, context=context)
    assert not (tmp_path / "made").exists()


def test_the_pooling_of_a_head_is_not_to_be_set(tmp_path: Path, context: HostContext) -> None:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", num_labels=1)
    assert "is a reranker: its pooling" in refused(folder, context, Reading(pooling="mean")).message
