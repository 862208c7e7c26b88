"""The word of `edgepack inspect` about each target, beside what `edgepack bundle` decides of the same model."""

import json
import platform
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.support.checkpoints import write_head
from tests.support.families import write_family
from tests.support.graphs import write_graph_alone
from tests.support.newer_models import write_new_model
from tests.support.small_models import write_small_model
from tests.support.static_models import write_model2vec, write_module
from tests.support.tiny import WORDS, write_json

from edgepack import api
from edgepack.errors import EdgepackError
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.plugins.supported_outputs import with_supported_outputs
from edgepack.recipes.expected import expected
from edgepack.recipes.registry import passes_for
from edgepack.records.model import ModelSource
from edgepack.records.target import UNSAID, Reading, Target
from edgepack.reports.budget import foretell_budget, foretell_from_weights
from edgepack.runner.native.build import Program
from edgepack.suitability.decide import REFUSALS
from edgepack.suitability.default import choose_target
from edgepack.suitability.rows import recommended, suitability

WIDE: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128}


class CompilesError(EdgepackError):
    """A build came as far as to what compiles, or fetches: the model is taken."""


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiles(*arguments: object, **named: object) -> None:
        raise CompilesError("it compiles")

    monkeypatch.setattr(Program, "link", compiles)
    monkeypatch.setattr(api, "freeze_runner", compiles)
    monkeypatch.setattr("edgepack_tensorrt.builder.with_engine", lambda prepared, **named: prepared)
    monkeypatch.setattr("edgepack_tensorrt.builder.TensorrtBuilder.libraries", None)
    for module in ("builder", "encoders"):
        monkeypatch.setattr(f"edgepack_windows.{module}.find_wine", lambda **named: None)


def family(kind: str, **shape: Any) -> Callable[[Path], object]:
    return lambda folder: write_family(folder, kind, **shape)


def with_dense(folder: Path) -> None:
    write_small_model(folder, "unigram")
    modules = json.loads((folder / "modules.json").read_text())
    modules.insert(
        2, {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    )
    write_json(folder / "modules.json", modules)
    weight = np.eye(16, 32, dtype=np.float32)
    (folder / "3_Dense").mkdir()
    save_file({"linear.weight": weight}, folder / "3_Dense/model.safetensors")
    config = {"in_features": 32, "out_features": 16, "bias": False}
    write_json(
        folder / "3_Dense/config.json", {**config, "activation_function": "torch.nn.modules.activation.Tanh"}
    )


def static_with(normalizer: dict[str, Any]) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        write_module(folder)
        document = json.loads((folder / "tokenizer.json").read_text())
        write_json(folder / "tokenizer.json", {**document, "normalizer": normalizer})

    return write


def beyond_half(folder: Path) -> None:
    write_model2vec(folder, {"embeddings": np.full((len(WORDS), 8), 70_000, np.float32)})


MODELS: dict[str, Callable[[Path], object]] = {
    "bert": family("bert", **WIDE),
    "bert of odd widths": family("bert"),
    "byte-level": lambda folder: write_small_model(folder, "byte-level"),
    "unigram": lambda folder: write_small_model(folder, "unigram"),
    "with Dense": with_dense,
    "distilbert": family("distilbert"),
    "mpnet": family("mpnet"),
    "modernbert": family("modernbert"),
    "albert": family("albert"),
    "deberta": family("deberta-v2"),
    "nomic": family("nomic_bert"),
    "qwen3": family("qwen3"),
    "llama": family("llama"),
    "gemma": family("gemma3_text"),
    "reranker": lambda folder: write_head(folder, "BertForSequenceClassification", num_labels=1),
    "classifier": lambda folder: write_head(folder, "BertForSequenceClassification", num_labels=3),
    "static": write_module,
    "static, of model2vec": write_model2vec,
    "static, beyond float16": beyond_half,
    "static, odd normalizer": static_with({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}),
    "a graph alone": write_graph_alone,
    "a graph of a newer opset": write_new_model,
}


DECODERS = ("qwen3", "llama", "gemma")


def decided(source: ModelSource, target: Target, builder: Any, context: HostContext) -> EdgepackError | None:
    """What a build refuses a model with, step by step, without having asked before."""
    try:
        source = with_supported_outputs(source, builder.outputs, target.name, context=context)
        foretell_from_weights(target, expected(source, passes_for(source, target.model, context)))
        prepared = builder.prepare_model(source)
        foretell_budget(target, prepared.file)
        builder.make_runner(prepared, None)
    except REFUSALS as error:
        return error
    except EdgepackError:
        return None
    return None


def otherwise(name: str, targets: Collection[str], folder: Path, context: HostContext) -> dict[str, Any]:
    """The targets of which a build decides otherwise than was said, with both words."""
    model = folder / "model"
    model.mkdir()
    MODELS[name](model)
    named = (
        model
        if {"config.json", "modules.json"} & {file.name for file in model.iterdir()}
        else model / "model.onnx"
    )
    source = ingest(str(named), reading=Reading(treat_as_embedding=name in DECODERS), context=context)
    context = only(targets, context)
    host = context.plugins()
    said = {row.target: row for row in suitability(source, context=context)}
    assert set(said) == set(targets)
    wrong = {}
    for target_name, row in said.items():
        target = host.target(target_name)
        work = folder / target_name
        work.mkdir()
        aside = replace(context, work_dir=work)
        error = decided(source, target, host.create(target, aside), aside)
        if row.taken != (error is None) or (error is not None and row.reason != error.message):
            wrong[target_name] = (row.reason or "taken", error and error.message)
    return wrong


def only(targets: Collection[str], context: HostContext) -> HostContext:
    """The context of a machine that has these targets."""
    host = context.plugins()
    host = replace(host, target_files={name: host.target_files[name] for name in targets})
    return replace(context, plugins=lambda: host)


@pytest.mark.slow  # each is prepared by the recipes of all targets
@pytest.mark.parametrize("name", MODELS)
def test_inspect_says_what_bundle_decides(name: str, tmp_path: Path, context: HostContext) -> None:
    assert otherwise(name, context.plugins().target_files, tmp_path, context) == {}


def test_it_does_of_tables(tmp_path: Path, context: HostContext) -> None:
    targets = ("linux-x86-static", "windows-x64-static")
    assert otherwise("static, odd normalizer", targets, tmp_path, context) == {}


def test_targets_are_said_to_take_a_model_or_why_not(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_family(tmp_path, "bert")
    monkeypatch.setattr("edgepack_engine.lower.MOST_BYTES", 1000)
    context = only(("linux-x86-fast", "linux-x86-min", "linux-x86-static"), context)
    rows = suitability(ingest(str(tmp_path), context=context), context=context)
    said = {row.target: row for row in rows}
    assert said["linux-x86-min"].taken and said["linux-x86-min"].recipe == "int8-download"
    assert not said["linux-x86-static"].taken
    assert "is not a static model" in said["linux-x86-static"].reason
    assert not said["linux-x86-fast"].taken
    assert said["linux-x86-fast"].reason.startswith("a token needs")
    assert "--target linux-x86-min" in said["linux-x86-fast"].hint


def test_of_a_page_what_a_visit_downloads_is_foretold(tmp_path: Path, context: HostContext) -> None:
    """Its archive holds the model three times: as it is, and compressed in two ways."""
    write_family(tmp_path, "bert")
    rows = suitability(
        ingest(str(tmp_path), context=context), context=only(("web-fast", "web-wasm"), context)
    )
    assert [row.archive is not None and 0 < row.archive < 1_000_000 for row in rows] == [True, True]


@pytest.mark.parametrize("name", ["bert", "deberta", "static"])
def test_what_is_recommended_is_what_bundle_takes(
    name: str, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Target and recipe, of which the fast target has another where it is named."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    MODELS[name](tmp_path)
    chosen = choose_target(str(tmp_path), (), UNSAID, context=context).target
    source = ingest(str(tmp_path), context=context)
    row = recommended(source, suitability(source, context=context), context=context)
    assert row is not None and (row.target, row.recipe) == (chosen.name, chosen.model.recipe)
    if name == "bert":
        assert [each.recipe for each in row.choices] == ["int8-tiny", "int8-download", "int8"]
        assert row.measured_with == "all-MiniLM-L6-v2"


def test_another_target_is_recommended_where_no_default_takes_the_model(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    write_module(tmp_path)
    source = ingest(str(tmp_path), context=context)
    rows = suitability(source, context=only(("linux-arm64-min", "windows-x64-static"), context))
    row = recommended(source, rows, context=context)
    assert row is not None and row in rows and row.taken
    assert recommended(source, [replace(row, taken=False)], context=context) is None


@dataclass(frozen=True)
class Never:
    """A builder that would have to be asked for its model."""

    outputs: tuple[str, ...] = ()


def test_a_builder_that_says_nothing_refuses_nothing_before(tmp_path: Path, context: HostContext) -> None:
    from edgepack.plugins.builder import Builder

    host = context.plugins()
    made = host.create(host.target("linux-x86-min"), context)
    silent = Builder(plugin="silent", builder=Never(), asked=made.asked, working=())  # type: ignore[arg-type]
    source, _ = write_family(tmp_path, "bert")
    silent.require_model(source)
