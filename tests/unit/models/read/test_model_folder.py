"""The folder of a model: what is in it, parsed once."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.tiny import MODULES, write_json

from edgepack.errors import ModelError
from edgepack.models.find.source import ingest
from edgepack.models.read import documents, model_folder
from edgepack.models.read.model_folder import ModelFolder
from edgepack.plugins.context import HostContext


def test_a_document_is_parsed_once(
    model: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(model / "config_sentence_transformers.json", {"prompts": {"query": "query: "}})
    parsed: Counter[str] = Counter()

    def counted(path: Path) -> Any:
        parsed[path.relative_to(model).as_posix()] += 1
        return documents.read_json(path)

    monkeypatch.setattr(model_folder, "read_json", counted)
    ingest(str(model), context=context)
    assert parsed == dict.fromkeys(
        (
            "1_Pooling/config.json",
            "config.json",
            "config_sentence_transformers.json",
            "modules.json",
            "sentence_bert_config.json",
            "tokenizer_config.json",
        ),
        1,
    )


def test_modules_are_in_their_order_and_those_that_do_nothing_are_left_out(model: Path) -> None:
    dropout = {"idx": 9, "name": "x", "path": "9_Dropout", "type": "sentence_transformers.models.Dropout"}
    write_json(model / "modules.json", [MODULES[0], dropout, *MODULES[1:]])
    folder = ModelFolder(directory=model)
    assert folder.kinds == ("Transformer", "Pooling", "Normalize")
    assert [each.folder for each in folder.modules or ()] == ["", "1_Pooling", "2_Normalize"]


def test_what_is_not_there_is_empty_and_what_is_damaged_is_named(model: Path) -> None:
    folder = ModelFolder(directory=model)
    assert folder.settings == {}
    assert folder.names[:2] == ("1_Pooling/config.json", "README.md")
    (model / "sentence_bert_config.json").write_text("[1]")
    with pytest.raises(ModelError, match=r"sentence_bert_config.json holds a list"):
        _ = folder.transformer
    (model / "modules.json").write_text("{}")
    with pytest.raises(ModelError, match=r"modules.json is not a list"):
        _ = folder.kinds


@pytest.mark.parametrize("folder", ["a" * 70_000, "a/" * 70_000])
def test_a_module_in_a_folder_of_any_name(model: Path, context: HostContext, folder: str) -> None:
    write_json(model / "modules.json", [MODULES[0], {**MODULES[1], "path": folder}])
    with pytest.raises(ModelError, match=r"modules.json names a folder with \d+ letters"):
        ingest(str(model), context=context)


@pytest.mark.parametrize(("name", "most"), [("config.json", 4), ("modules.json", 4), ("tokenizer.json", 64)])
def test_a_document_of_many_bytes_is_refused(model: Path, name: str, most: int) -> None:
    text = (model / name).read_text()
    (model / name).write_text(text + " " * (most << 20))
    with pytest.raises(ModelError, match=rf"{name} has more than {most} MiB"):
        ModelFolder(directory=model).document(name)
