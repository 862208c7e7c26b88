"""What a checkpoint is for: embedders are taken, whatever their config.json was copied from; all else is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.berts import source_of
from tests.support.checkpoints import change, write_encoder, write_head
from tests.support.graphs import token_graph, write
from tests.support.tiny import MODULES, POOLING, write_json

from edgepack.errors import UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.heads.classification import CLASS
from edgepack.models.heads.classification import FAMILIES as TAKEN
from edgepack.models.read import architectures
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource
from edgepack.records.target import Reading


def with_modules(folder: Path, modules: list[dict[str, Any]] = MODULES) -> Path:
    write_json(folder / "modules.json", modules)
    write_json(folder / "1_Pooling" / "config.json", {**POOLING, "word_embedding_dimension": 32})
    return folder


def refusal(folder: Path, context: HostContext) -> UnsupportedModelError:
    with pytest.raises(UnsupportedModelError) as caught:
        ingest(str(folder), context=context)
    return caught.value


def treated(folder: Path, context: HostContext) -> ModelSource:
    return ingest(str(folder), reading=Reading(treat_as_embedding=True), context=context)


def model_type(folder: Path) -> str:
    return str(json.loads((folder / "config.json").read_text())["model_type"])


HEADS = [
    ("BertForTokenClassification", {"num_labels": 9}, "a token classifier (BertForTokenClassification)"),
    ("BertForQuestionAnswering", {}, "a question-answering model (BertForQuestionAnswering)"),
    ("BertForMaskedLM", {}, "a masked language model (BertForMaskedLM)"),
    ("BertForPreTraining", {}, "a masked language model (BertForPreTraining)"),
    ("BertLMHeadModel", {"is_decoder": True}, "a model that generates text (BertLMHeadModel)"),
]


@pytest.mark.parametrize(("kind", "shape", "words"), HEADS)
def test_a_model_with_a_head_is_refused_by_name(
    tmp_path: Path, context: HostContext, kind: str, shape: dict[str, Any], words: str
) -> None:
    error = refusal(write_head(tmp_path / "model", kind, **shape), context)
    assert error.message.startswith(f"model is {words}: ")
    assert "--treat-as-embedding" in (error.hint or "")


@pytest.mark.parametrize(
    ("kind", "shape", "words"),
    [
        (
            "BertForSequenceClassification",
            {"num_labels": 1},
            "a reranker (it has classifier.weight, 1 label)",
        ),
        (
            "BertForTokenClassification",
            {"num_labels": 9},
            "a classifier (it has classifier.weight, 9 labels)",
        ),
        ("BertForQuestionAnswering", {}, "a question-answering model (it has qa_outputs.weight)"),
        ("BertForMaskedLM", {}, "a masked language model (it has cls.predictions."),
    ],
)
def test_a_head_is_seen_where_config_says_nothing(
    tmp_path: Path, context: HostContext, kind: str, shape: dict[str, Any], words: str
) -> None:
    folder = write_head(tmp_path / "model", kind, **shape)
    change(folder / "config.json", architectures=["BertModel"])
    assert f"model is {words}" in refusal(folder, context).message


FAMILIES = [
    "Roberta",
    "XLMRoberta",
    "Camembert",
    "MPNet",
    "DistilBert",
    "NomicBert",
    "Electra",
    "Albert",
    "ModernBert",
]


@pytest.mark.sample(11)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("head", "words"), [(CLASS, "a reranker"), ("ForMaskedLM", "a masked language model")]
)
def test_heads_of_other_families(
    tmp_path: Path,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    head: str,
    words: str,
) -> None:
    """Each calls the tensors of its heads otherwise."""
    # Without PyTorch an Electra is refused before anything is looked at.
    monkeypatch.setattr(architectures, "find_spec", lambda name: name)
    folder = write_head(tmp_path / "model", family + head, num_labels=1, pad_token_id=0)
    if head != CLASS or model_type(folder) not in TAKEN:
        assert f"model is {words} ({family}{head}" in refusal(folder, context).message
    change(folder / "config.json", architectures=None)
    assert f"model is {words} (it has " in refusal(folder, context).message


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForSequenceClassification"])
def test_modules_come_before_what_config_was_copied_from(
    tmp_path: Path, context: HostContext, kind: str
) -> None:
    """all-mpnet-base-v2 says MPNetForMaskedLM, jina-embeddings-v2 JinaBertForMaskedLM."""
    source = ingest(str(with_modules(write_head(tmp_path / "model", kind))), context=context)
    assert (source.pooling_from, source.warnings) == ("modules.json", ())


@pytest.mark.parametrize("labels", [{"0": "LABEL_0"}, {"0": "a", "1": "b"}])
def test_labels_alone_make_no_classifier(
    tmp_path: Path, context: HostContext, labels: dict[str, str]
) -> None:
    """BGE's config.json has an id2label of one label."""
    folder = write_encoder(tmp_path / "bge-tiny")
    change(folder / "config.json", id2label=labels)
    assert ingest(str(folder), context=context).pooling.mode == "cls"


def test_the_pooler_makes_no_classifier(tmp_path: Path, context: HostContext) -> None:
    folder = write_encoder(tmp_path / "model")
    assert ingest(str(folder), context=context).pooling_from == "guess"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model_type": "CrossEncoder"}, "a reranker"),
        ({"model_type": "SparseEncoder"}, "a sparse encoder (SPLADE)"),
        ({"model_type": "MultiVectorEncoder"}, "a multi-vector encoder (ColBERT)"),
        ({"model_type": "ColBERT"}, "a multi-vector encoder (ColBERT)"),
    ],
)
def test_what_sentence_transformers_calls_it_counts(
    tmp_path: Path, context: HostContext, settings: dict[str, str], words: str
) -> None:
    folder = with_modules(write_encoder(tmp_path / "model"))
    write_json(folder / "config_sentence_transformers.json", settings)
    error = refusal(folder, context)
    assert f"model is {words}: " in error.message
    assert "--treat-as-embedding" not in (error.hint or "")
    with pytest.raises(UnsupportedModelError, match="model is a"):
        treated(folder, context)
    write_json(folder / "config_sentence_transformers.json", {"model_type": "SentenceTransformer"})
    assert ingest(str(folder), context=context).pooling_from == "modules.json"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("sentence_transformers.sparse_encoder.models.SpladePooling", "a sparse encoder"),
        ("sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling", "a sparse encoder"),
        ("sentence_transformers.sparse_encoder.models.SparseAutoEncoder", "a sparse encoder"),
        ("sentence_transformers.cross_encoder.modules.logit_score.LogitScore", "a reranker"),
        ("sentence_transformers.multi_vector_encoder.modules.MultiVectorMask", "a multi-vector encoder"),
    ],
)
def test_modules_tell(tmp_path: Path, context: HostContext, kind: str, words: str) -> None:
    modules = [MODULES[0], {"idx": 1, "name": "1", "path": "1_SpladePooling", "type": kind}]
    folder = with_modules(write_encoder(tmp_path / "model"), modules)
    assert f"model is {words}" in refusal(folder, context).message


@pytest.mark.parametrize(
    ("task", "words"), [("fill-mask", "a masked language model"), ("sequence-classification", "a classifier")]
)
def test_the_task_of_the_transformer_module_tells(
    tmp_path: Path, context: HostContext, task: str, words: str
) -> None:
    folder = with_modules(write_encoder(tmp_path / "model"))
    write_json(folder / "sentence_bert_config.json", {"transformer_task": task})
    assert f"model is {words}" in refusal(folder, context).message


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("pipeline_tag: text-ranking", "a reranker (its card says so)"),
        ("tags:\n- bert\n- splade\n", "a sparse encoder (SPLADE) (its card says so)"),
        ("pipeline_tag: text-classification # really", "a classifier (its card says so)"),
    ],
)
def test_the_card_tells_where_nothing_else_does(
    tmp_path: Path, context: HostContext, front: str, words: str
) -> None:
    folder = write_encoder(tmp_path / "model")
    (folder / "README.md").write_text(f"---\nlicense: mit\n{front}\n---\n# A model\n")
    assert f"model is {words}" in refusal(folder, context).message
    assert ingest(str(with_modules(folder)), context=context).license == "MIT"


def test_a_masked_language_model_whose_card_says_sentence_similarity(
    tmp_path: Path, context: HostContext
) -> None:
    folder = write_head(tmp_path / "model", "BertForMaskedLM")
    (folder / "README.md").write_text("---\npipeline_tag: sentence-similarity\n---\n")
    assert ingest(str(folder), context=context).pooling_from == "guess"
    (folder / "README.md").write_text("---\npipeline_tag: feature-extraction\ntags: [splade]\n---\n")
    assert ingest(str(folder), context=context).further_outputs == ("sparse",)


def test_an_image_model_is_called_one(tmp_path: Path, context: HostContext) -> None:
    write_json(tmp_path / "vit" / "config.json", {"model_type": "vit", "image_size": 224})
    assert "vit is an image model (vit)" in refusal(tmp_path / "vit", context).message


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({"logits": ["batch", 1]}, "a reranker (its graph gives logits, 1 label)"),
        ({"logits": ["batch", 5]}, "a classifier (its graph gives logits, 5 labels)"),
        ({"logits": ["batch", "sequence", 60]}, "a masked language model (its graph gives logits)"),
        (
            {"start_logits": ["batch", "sequence"], "end_logits": ["batch", "sequence"]},
            "a question-answering model (its graph gives start_logits)",
        ),
    ],
)
def test_a_graph_that_gives_only_a_heads_result(
    tmp_path: Path, context: HostContext, outputs: dict[str, list[Any]], words: str
) -> None:
    from onnx import TensorProto, helper

    folder = write_encoder(tmp_path / "model")
    graph = token_graph(source_of(folder), folder / "graph")
    (folder / "model.safetensors").unlink()
    del graph.graph.output[:]
    for name, shape in outputs.items():
        graph.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    write(graph, folder / "model.onnx")
    assert f"model is {words}" in refusal(folder, context).message
    hidden = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", 32])
    graph.graph.output.append(hidden)
    write(graph, folder / "model.onnx")
    assert ingest(str(folder), context=context).pooling_from == "guess"


def test_the_user_may_say_that_it_is_one(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(context.story, "warn", heard.append)
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", num_labels=1)
    source = treated(folder, context)
    said = (
        "it is a reranker (BertForSequenceClassification, 1 label), and is treated as an embedding model "
        "because --treat-as-embedding says so"
    )
    assert heard == list(source.warnings)
    assert heard[0] == said
    assert source.reading == Reading(treat_as_embedding=True)


def test_an_embedder_needs_no_word(tmp_path: Path, context: HostContext) -> None:
    folder = with_modules(write_encoder(tmp_path / "model"))
    assert treated(folder, context).warnings == ()


def test_config_of_another_form_is_no_crash(tmp_path: Path, context: HostContext) -> None:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification")
    change(
        folder / "config.json", architectures="BertForSequenceClassification", id2label=["a"], num_labels="x"
    )
    with pytest.raises(UnsupportedModelError, match="classifier"):
        ingest(str(folder), context=context)
