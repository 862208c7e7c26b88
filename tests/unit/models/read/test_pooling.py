"""How a model pools where no modules.json says it, and what the user says of it."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.support.berts import source_of, write_bert
from tests.support.checkpoints import change
from tests.support.graphs import vector_graph, write
from tests.support.installed import export_onnx, read_folder
from tests.support.tiny import write_json

from edgepack.errors import UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.read.card import read_card
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.reference import exported_model
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource, Pooling
from edgepack.records.target import Reading


def bare(model: Path) -> Path:
    (model / "modules.json").unlink()
    return model


def read(
    model: Path, name: str = "model", reading: Reading | None = None, known: str | None = None
) -> ModelSource:
    return read_folder(
        model,
        name=name,
        origin=name,
        reading=reading or Reading(),
        known=known,
    )


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("BAAI/bge-small-en-v1.5", "cls"),
        ("my-bge-base-legal", "cls"),
        ("/root/.cache/torch/sentence_transformers/BAAI_bge-small-en/", "cls"),
        ("thenlper/gte-small", "mean"),
        ("Alibaba-NLP/gte-base-en-v1.5", "cls"),
        ("Alibaba-NLP/gte-multilingual-base", "cls"),
        ("mixedbread-ai/mxbai-embed-large-v1", "cls"),
        ("Snowflake/snowflake-arctic-embed-m-v2.0", "cls"),
        ("intfloat/multilingual-e5-small", "mean"),
        ("intfloat/e5-mistral-7b-instruct", "last"),
        ("Qwen/Qwen3-Embedding-0.6B", "last"),
        ("nreimers/MiniLM-L6-H384-uncased", "mean"),
        ("sentence-transformers/all-mpnet-base-v2", "mean"),
        ("nomic-ai/nomic-embed-text-v1.5", "mean"),
        ("nomic-ai/modernbert-embed-base", "mean"),
        ("ibm-granite/granite-embedding-english-r2", "cls"),
    ],
)
@pytest.mark.parametrize("place", ["name", "config", "card"])
def test_a_known_family_is_the_guess(model: Path, name: str, mode: str, place: str) -> None:
    bare(model)
    if place == "config":
        change(model / "config.json", _name_or_path=name)
    if place == "card":
        (model / "README.md").write_text(f"---\nbase_model:\n- {name}\n---\n")
    source = read(model, name if place == "name" else "mine")
    assert (source.pooling.mode, source.pooling_from) == (mode, "family")
    assert "are guesses; say --pooling" in source.warnings[0]


def test_an_unknown_family_is_mean(model: Path) -> None:
    source = read(bare(model), "large-language-thing")
    assert (source.pooling.mode, source.pooling_from) == ("mean", "guess")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("embeddings = last_hidden_state[:, 0]", "cls"),
        ("sentence_embeddings = model_output[0][:, 0]", "cls"),
        ("def mean_pooling(model_output, attention_mask):", "mean"),
        ("embeddings = average_pool(outputs.last_hidden_state, mask)", "mean"),
        ("def last_token_pool(last_hidden_states, mask):", "last"),
        (
            "Pooling({'word_embedding_dimension': 384, 'pooling_mode_cls_token': True, 'pooling_mode_mean_tokens': False})",
            "cls",
        ),
        ("(1): Pooling({'embedding_dimension': 384, 'pooling_mode': 'max', 'include_prompt': True})", "max"),
        ("Pooling({'pooling_mode': ['cls', 'mean']}) def mean_pooling(", None),
        ("Pooling({half)", None),
        ("last_hidden_state[:, 0] or def mean_pooling(x)", None),
        ("mean annual income", None),
    ],
)
def test_the_code_of_a_card_tells(model: Path, text: str, mode: str | None) -> None:
    (bare(model) / "README.md").write_text(f"---\nlicense: mit\n---\n```python\n{text}\n```\n")
    assert read_card(ModelFolder(directory=model)).pooling == mode
    source = read(model, "bge-like")
    assert source.pooling.mode == (mode or "cls"), "the card comes before the family"
    assert source.pooling_from == ("model card" if mode else "family")
    assert ("README.md" in {file.path for file in source.files}) == (mode is not None)
    assert source.warnings


def test_the_catalogue_comes_before_the_card_and_is_no_guess(model: Path) -> None:
    (bare(model) / "README.md").write_text("def mean_pooling(")
    source = read(model, known="cls")
    assert (source.pooling.mode, source.pooling_from, source.warnings) == ("cls", "catalogue", ())


def test_modules_come_before_everything_that_is_guessed(model: Path) -> None:
    (model / "README.md").write_text("last_hidden_state[:, 0]")
    source = read(model, "bge-small", known="cls")
    assert (source.pooling.mode, source.pooling_from, source.warnings) == ("mean", "modules.json", ())


def test_what_is_set_is_no_guess(model: Path) -> None:
    source = read(bare(model), reading=Reading(pooling="cls", normalize=False))
    assert source.pooling == Pooling(mode="cls", normalize=False)
    assert (source.pooling_from, source.warnings) == ("set", ())
    half = read(model, reading=Reading(pooling="cls"))
    assert half.warnings[0].startswith("no modules.json: L2 normalisation is a guess")


@pytest.mark.parametrize(
    ("reading", "pooling", "warnings"),
    [
        (Reading(pooling="mean", normalize=True), Pooling(), []),
        (Reading(pooling="cls"), Pooling(mode="cls"), ["cls pooling is set, modules.json says mean"]),
        (
            Reading(normalize=False),
            Pooling(normalize=False),
            ["no L2 normalisation is set, modules.json says L2 normalisation"],
        ),
    ],
)
def test_what_contradicts_modules_is_said(
    model: Path, reading: Reading, pooling: Pooling, warnings: list[str]
) -> None:
    source = read(model, reading=reading)
    assert (source.pooling, list(source.warnings)) == (pooling, warnings)
    assert source.pooling_from == ("set" if reading.pooling else "modules.json")


def test_another_reading_is_another_reference(tmp_path: Path, context: HostContext) -> None:
    write_bert(tmp_path / "model")
    one, other = (
        ingest(str(tmp_path / "model"), reading=Reading(pooling=mode), context=context)
        for mode in ("mean", "cls")
    )
    assert exported_model(one, context=context) != exported_model(other, context=context)


def test_prompts_that_are_set_come_before_the_models_own(model: Path) -> None:
    change(model / "config_sentence_transformers.json", prompts={"query": "q: ", "passage": "p: "})
    assert read(model, reading=Reading(prompts={"query": "ask: "})).prompts == {
        "query": "ask: ",
        "passage": "p: ",
    }


@pytest.mark.parametrize("place", ["1_Pooling", "pooling"])
def test_prompts_that_are_left_out_of_the_pooling_are_refused(model: Path, place: str) -> None:
    (model / "1_Pooling").rename(model / place)
    modules = json.loads((model / "modules.json").read_text())
    modules[1]["path"] = place
    write_json(model / "modules.json", modules)
    change(model / place / "config.json", include_prompt=False)
    found = read(model)
    assert found.prompts == {}
    assert "an instruction written before a text is pooled" in found.warnings[0]
    with pytest.raises(UnsupportedModelError, match="include_prompt") as set_here:
        read(model, reading=Reading(prompts={"query": "q: "}))
    assert "leave --prompt out" in (set_here.value.hint or "")
    change(model / "config_sentence_transformers.json", prompts={"query": "q: "})
    with pytest.raises(UnsupportedModelError, match="include_prompt"):
        read(model)


def test_instructors_leave_prompts_out_of_the_pooling_by_their_names(model: Path) -> None:
    """hkunlp/instructor-large was accepted with --prompt, whose tokens were pooled."""
    prompts = Reading(prompts={"science": "Represent the Science sentence: "})
    instructor = partial(read, model, "hkunlp/Instructor-large")
    assert read(model, reading=prompts).prompts == prompts.prompts
    assert "an instruction written before a text is pooled" in instructor().warnings[0]
    with pytest.raises(UnsupportedModelError, match="include_prompt"):
        instructor(reading=prompts)
    change(model / "1_Pooling" / "config.json", include_prompt=True)
    assert instructor(reading=prompts).prompts == prompts.prompts


def test_a_graph_that_pools_by_itself(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    write(
        vector_graph(source, tmp_path / "graph", output="sentence_embedding"),
        tmp_path / "model" / "graph.onnx",
    )
    found = ingest(str(tmp_path / "model" / "graph.onnx"), context=context)
    assert found.pooling_from == "graph"
    assert found.warnings[0].startswith("no modules.json: L2 normalisation is a guess")
    said = source_of(tmp_path / "model", onnx="graph.onnx")
    with pytest.raises(UnsupportedModelError, match="its pooling cannot be set to cls"):
        export_onnx(replace(said, reading=Reading(pooling="cls")), tmp_path / "out.onnx")
