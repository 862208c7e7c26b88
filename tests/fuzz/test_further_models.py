"""A little fuzzing for each file of a small SPLADE and a small ColBERT model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from edgepack.errors import EdgepackError
from tests.fuzz.further_models import FILES, WRITERS, fuzz, read_model
from tests.support.once import made_once

CASES = [(kind, name) for kind, names in FILES.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_model_of_a_stranger_is_read_or_an_error_for_people(
    kind: str, name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sound = made_once(tmp_path_factory, f"fuzz-{kind}", WRITERS[kind])
    assert fuzz(sound, tmp_path, name, rounds=range(10), number=1) == 10


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("splade", "config.json", {"layer_norm_eps": []}),
        ("splade", "config.json", {"layer_norm_eps": 10**400}),
        ("splade", "config.json", {"model_type": [["bert"]]}),
        ("colbert", "config_sentence_transformers.json", {"query_prefix": 7}),
        ("colbert", "config_sentence_transformers.json", {"query_length": {"x": 1}}),
        ("colbert", "config_sentence_transformers.json", {"document_length": 1 << 70}),
        ("colbert", "config_sentence_transformers.json", {"skiplist_words": 7}),
        ("colbert", "config_sentence_transformers.json", {"skiplist_words": [{}]}),
        ("colbert", "config_sentence_transformers.json", {"query_expansion": 7}),
        ("colbert", "config_sentence_transformers.json", {"query_expansion": {"length": "../../x"}}),
    ],
)
def test_what_was_found_is_an_error_for_people(
    kind: str, name: str, change: dict[str, Any], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sound = made_once(tmp_path_factory, f"fuzz-{kind}", WRITERS[kind])
    shutil.copytree(sound, tmp_path / "model")
    file = tmp_path / "model" / name
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(EdgepackError):
        read_model(tmp_path / "model")


@pytest.mark.parametrize("places", [[[], 1], [{"x": 1}, 7]])
def test_modules_in_odd_places_are_read(
    places: list[Any], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sound = made_once(tmp_path_factory, "fuzz-splade", WRITERS["splade"])
    shutil.copytree(sound, tmp_path / "model")
    file = tmp_path / "model" / "modules.json"
    modules = [
        {**each, "idx": place} for each, place in zip(json.loads(file.read_text()), places, strict=True)
    ]
    file.write_text(json.dumps(modules))
    read_model(tmp_path / "model")
