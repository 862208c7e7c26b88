"""Prompts and Matryoshka lengths: from the model's own files, or from the catalogue."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.hub import COMMIT, publish
from tests.support.installed import read_folder
from tests.support.serving import Server
from tests.support.tiny import CONFIG, write_json

from edgepack.errors import ModelError
from edgepack.models.find.catalogue import Entry, ingest_entry, load_catalogue, with_known_facts
from edgepack.plugins.context import HostContext

PROMPTS = {"query": "query: ", "passage": "passage: "}


def entry(**facts: object) -> Entry:
    known = {"model_type": "bert", "hidden_size": CONFIG["hidden_size"]}
    return replace(
        Entry(name="tiny/bert", places=("hf:tiny/bert",), shape=known, pooling="mean", license="MIT"),
        **facts,  # type: ignore[arg-type]
    )


def test_prompts_come_from_the_models_own_files(model: Path) -> None:
    write_json(
        model / "config_sentence_transformers.json",
        {"prompts": {**PROMPTS, "document": ""}, "default_prompt_name": "query"},
    )
    source = read_folder(model, name="tiny", origin="tiny")
    assert source.prompts == PROMPTS
    assert "config_sentence_transformers.json" in {file.path for file in source.files}
    assert source.default_prompt == "query"
    assert source.warnings == (
        "sentence-transformers puts the query prompt 'query: ' before each text unasked, a bundle does not",
    )
    assert with_known_facts(source, entry(prompts={"query": "other: "})).prompts == PROMPTS


@pytest.mark.parametrize("prompts", [["query: "], {"query": 3}])
def test_prompts_of_another_form_are_refused(model: Path, prompts: object) -> None:
    write_json(model / "config_sentence_transformers.json", {"prompts": prompts})
    with pytest.raises(ModelError, match="prompts is not a table"):
        read_folder(model, name="tiny", origin="tiny")


def test_a_model_without_known_digests_is_held_against_its_shape(
    server: Server, model: Path, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.base)
    publish(server, model)
    known = entry(prompts=PROMPTS, matryoshka=(8, 4))
    source = ingest_entry(known, context=online)
    assert source.origin == f"hf:tiny/bert@{COMMIT}"
    assert (source.prompts, source.matryoshka) == (PROMPTS, (8, 4))
    with pytest.raises(ModelError, match="hidden_size is 8, known is 384"):
        ingest_entry(replace(known, shape={"hidden_size": 384}), context=online)
    with pytest.raises(ModelError, match="pools by mean, known is cls"):
        ingest_entry(replace(known, pooling="cls"), context=online)


def test_the_supported_models_are_in_the_catalogue() -> None:
    catalogue = load_catalogue()
    names = {known.short_name for known in catalogue.entries}
    assert names == {
        "all-MiniLM-L6-v2",
        "bge-small-en-v1.5",
        "bge-base-en-v1.5",
        "bge-large-en-v1.5",
        "nomic-embed-text-v1.5",
        "multilingual-e5-small",
        "all-mpnet-base-v2",
    }
    bge = catalogue.find("bge-small-en-v1.5")
    assert bge is not None and bge.pooling == "cls" and bge.prompts["query"].startswith("Represent this")
    nomic = catalogue.find("nomic-ai/nomic-embed-text-v1.5")
    assert nomic is not None and nomic.matryoshka == (768, 512, 256, 128, 64)
    assert all(known.files or known.shape for known in catalogue.entries)
