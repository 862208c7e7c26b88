"""Model folders: what is read out of them, and what is wrong with those that cannot be used."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file
from tests.support.berts import write_bert
from tests.support.checkpoints import change
from tests.support.graphs import vector_graph, write, write_graph_alone
from tests.support.installed import read_folder
from tests.support.tiny import (
    CONFIG,
    HIDDEN,
    MODULES,
    POOLING,
    WORDS,
    tokenizer_document,
    write_json,
    write_onnx,
    write_safetensors,
)

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.files.store import sha256_of
from edgepack.models.export.source_key import source_key
from edgepack.models.find.source import ingest, read_model
from edgepack.models.read.hub_layout import FOLLOWED, SAFETENSORS, choose_weights
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.safetensors import open_tensors
from edgepack.models.read.sentence_transformers import read_max_length
from edgepack.plugins.context import HostContext
from edgepack.records.model import Pooling
from edgepack.records.target import Reading
from edgepack.testing import write_static_model


def refused(model: Path, context: HostContext) -> EdgepackError:
    """The error that a folder makes."""
    with pytest.raises(EdgepackError) as caught:
        ingest(str(model), context=context)
    return caught.value


def test_a_folder_is_read(model: Path, context: HostContext) -> None:
    source = ingest(str(model), context=context)
    assert source.name == source.origin == "tiny-bert"
    assert source.weights == model / "model.safetensors"
    assert source.onnx is None
    assert source.tokenizer == model / "tokenizer.json"
    assert source.pooling == Pooling(mode="mean", normalize=True)
    assert (source.max_length, source.dimension) == (32, HIDDEN)
    assert source.license == "Apache-2.0"
    assert source.config["model_type"] == "bert"


@pytest.mark.parametrize("name", ["a\nRequires-Dist: other", "a\x1b[2J", "a\u2028b"])
def test_a_name_that_would_be_lines_of_a_package_is_refused(
    model: Path, context: HostContext, name: str
) -> None:
    error = refused(model.rename(model.with_name(name)), context)
    assert "cannot be called" in error.message and error.message.isprintable()
    assert error.hint and "rename" in error.hint


def test_the_files_that_decide_are_listed_by_content(model: Path, context: HostContext) -> None:
    source = ingest(str(model), context=context)
    listed = {file.path: file for file in source.files}
    assert sorted(listed) == [
        "1_Pooling/config.json",
        "config.json",
        "model.safetensors",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
    ]
    assert listed["tokenizer.json"].sha256 == sha256_of(model / "tokenizer.json")
    assert listed["model.safetensors"].size == (model / "model.safetensors").stat().st_size


def test_no_private_path_gets_into_the_record(
    model: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model)
    source = ingest(".", context=context)
    assert (source.name, source.origin) == ("tiny-bert", "tiny-bert")


def test_a_folder_that_does_not_exist(tmp_path: Path, context: HostContext) -> None:
    error = refused(tmp_path / "nowhere", context)
    assert isinstance(error, ModelError)
    assert "nowhere does not exist" in error.message


def test_a_file_that_is_no_model(tmp_path: Path, context: HostContext) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "neither a folder nor an .onnx file" in refused(tmp_path / "notes.txt", context).message


def test_no_tokenizer(model: Path, context: HostContext) -> None:
    (model / "tokenizer.json").unlink()
    error = refused(model, context)
    assert isinstance(error, ModelError)
    assert "has no tokenizer.json" in error.message
    assert "AutoTokenizer" in (error.hint or "")


@pytest.mark.parametrize("named", ["model.gguf", ""])
def test_gguf(tmp_path: Path, context: HostContext, named: str) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    error = refused(tmp_path / named, context)
    assert isinstance(error, UnsupportedModelError)
    assert "is in GGUF, the format of llama.cpp" in error.message
    assert "the model that it was made from" in (error.hint or "")


@pytest.mark.parametrize(
    ("config", "processor", "words"),
    [
        ({"image_size": 224}, None, "an image model (vit)"),
        ({"num_channels": 3}, None, "an image model (vit)"),
        ({}, {"image_processor_type": "ConvNextImageProcessor"}, "an image model (vit)"),
        ({}, {"feature_extractor_type": "Wav2Vec2FeatureExtractor"}, "a model of sound (vit)"),
    ],
)
def test_what_takes_no_texts(
    tmp_path: Path, context: HostContext, config: dict[str, Any], processor: Any, words: str
) -> None:
    write_json(tmp_path / "m/config.json", {"model_type": "vit", **config})
    if processor:
        write_json(tmp_path / "m/preprocessor_config.json", processor)
    error = refused(tmp_path / "m", context)
    assert error.message.startswith(f"m is {words}: ")
    assert error.hint == "take an embedding model of texts"


def split(model: Path) -> Path:
    """The weights in two files, as transformers saves large models; the index."""
    tensors = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    places = {}
    for number, (name, tensor) in enumerate(sorted(tensors.items()), start=1):
        shard = f"model-0000{number}-of-00002.safetensors"
        save_file({name: tensor}, model / shard)
        places[name] = shard
    index = model / "model.safetensors.index.json"
    write_json(index, {"metadata": {}, "weight_map": places})
    return index


def test_weights_in_several_files_are_read(model: Path, context: HostContext) -> None:
    table = open_tensors(model / "model.safetensors").read("bias", (4,))
    index = split(model)
    source = ingest(str(model), context=context)
    assert source.weights == index
    assert {each.path for each in source.files} >= {
        index.name,
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    }
    assert (open_tensors(index).read("bias", (4,)) == table).all()


def test_weights_in_several_files_of_which_one_is_missing(model: Path, context: HostContext) -> None:
    split(model).with_name("model-00002-of-00002.safetensors").unlink()
    assert refused(model, context).message == (
        "model-00002-of-00002.safetensors, which model.safetensors.index.json names, is missing"
    )


@pytest.mark.parametrize(
    ("holds", "words"),
    [
        ({"other": np.zeros(1, np.float32)}, "does not hold bias"),
        ({"bias": np.zeros(4, np.float32), "more": np.zeros(1, np.float32)}, "holds more"),
    ],
)
def test_a_file_of_weights_that_contradicts_the_index(
    model: Path, context: HostContext, holds: dict[str, Any], words: str
) -> None:
    save_file(holds, split(model).with_name("model-00001-of-00002.safetensors"))
    error = refused(model, context)
    assert error.message == (
        f"model-00001-of-00002.safetensors {words}, against what model.safetensors.index.json says"
    )


@pytest.mark.parametrize("place", ["../model.safetensors", "model.bin", 5])
def test_an_index_that_names_no_file_of_the_folder(model: Path, context: HostContext, place: Any) -> None:
    index = split(model)
    write_json(index, {"weight_map": {"bias": place}})
    assert "does not say which tensor is in which" in refused(model, context).message


def test_no_config(model: Path, context: HostContext) -> None:
    (model / "config.json").unlink()
    assert "has no config.json" in refused(model, context).message


@pytest.mark.parametrize(
    ("instead", "message", "hint"),
    [
        (None, "neither model.safetensors nor an .onnx", "model folder has"),
        ("pytorch_model.bin", "pytorch_model.bin is no zip archive", "load and save the model once"),
        ("tf_model.h5", "only tf_model.h5", "safe_serialization=True"),
        ("model.safetensors.index.json", "does not say which tensor", "fetch the model again"),
    ],
)
def test_no_weights(model: Path, context: HostContext, instead: str | None, message: str, hint: str) -> None:
    (model / "model.safetensors").unlink()
    if instead:
        (model / instead).write_text("{}")
    error = refused(model, context)
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize("kept", [4, 60, -1])
def test_a_truncated_safetensors(model: Path, context: HostContext, kept: int) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    error = refused(model, context)
    assert isinstance(error, ModelError)
    assert "model.safetensors is" in error.message
    assert ("truncated" in error.message) == (kept != 4)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x02\0\0\0\0\0\0\0[]", "not a safetensors"),
        (b"\x02\0\0\0\0\0\0\0{x", "not a safetensors"),
        (b"PK\x03\x04 this is a zip file", "not a safetensors"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git-lfs pointer"),
        (b'\x0e\0\0\0\0\0\0\0{"a":{"b":12}}', "malformed header"),
        (b'\x28\0\0\0\0\0\0\0{"a":{"shape":[0],"data_offsets":[0,0]}}', "malformed header"),
    ],
)
def test_a_safetensors_that_is_none(model: Path, context: HostContext, content: bytes, words: str) -> None:
    (model / "model.safetensors").write_bytes(content)
    assert words in refused(model, context).message


def test_bytes_behind_the_weights(model: Path, context: HostContext) -> None:
    with (model / "model.safetensors").open("ab") as file:
        file.write(b"more")
    assert "its header states" in refused(model, context).message


@pytest.mark.parametrize(
    "name",
    ["config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"],
)
def test_malformed_json_is_named(model: Path, context: HostContext, name: str) -> None:
    (model / name).write_text('{"half": ')
    error = refused(model, context)
    assert isinstance(error, ModelError)
    assert name.rpartition("/")[2] in error.message
    assert "not valid JSON" in error.message


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "sentence_bert_config.json"])
def test_json_of_another_kind_is_named(model: Path, context: HostContext, name: str) -> None:
    (model / name).write_text("[1, 2]")
    assert f"{name} holds a list, not a JSON object" in refused(model, context).message


@pytest.mark.parametrize("kind", [[], {}, 3])
def test_an_architecture_that_is_no_text(model: Path, context: HostContext, kind: object) -> None:
    said = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**said, "model_type": kind}))
    assert refused(model, context).message == "config.json: model_type is no text"


def test_json_that_is_nested_without_end(model: Path, context: HostContext) -> None:
    (model / "config.json").write_text("[" * 100_000)
    assert isinstance(refused(model, context), ModelError)


def test_a_tokenizer_that_is_none(model: Path, context: HostContext) -> None:
    write_json(model / "tokenizer.json", {"version": "1.0", "model": {"type": "Magic"}})
    assert "tokenizer.json is not a tokenizer" in refused(model, context).message


@pytest.mark.parametrize("value", [None, 0, -3, "384", 3.5, True])
def test_a_hidden_size_that_is_no_size(model: Path, context: HostContext, value: object) -> None:
    write_json(model / "config.json", {**CONFIG, "hidden_size": value})
    assert "hidden_size" in refused(model, context).message


def test_weights_of_another_model(model: Path, context: HostContext) -> None:
    write_safetensors(model / "model.safetensors", columns=HIDDEN * 2)
    error = refused(model, context)
    assert isinstance(error, ModelError)
    assert f"{len(WORDS)} of {HIDDEN * 2}" in error.message


def test_a_vocabulary_larger_than_the_embedding_table(model: Path, context: HostContext) -> None:
    write_json(model / "config.json", {**CONFIG, "vocab_size": 9})
    write_safetensors(model / "model.safetensors", rows=9)
    error = refused(model, context)
    assert isinstance(error, ModelError)
    assert "tokenizer.json has token 9, the model's embedding table has 9 rows" in error.message


def test_pooling_of_another_dimension(model: Path, context: HostContext) -> None:
    write_json(model / "1_Pooling" / "config.json", {**POOLING, "word_embedding_dimension": 9})
    assert "1_Pooling/config.json takes vectors of 9 numbers" in refused(model, context).message


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ({"pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode_weightedmean_tokens": True}, "weighted-mean"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode": ["mean"], "include_prompt": True}, "mean"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean-sqrt-len"),
        ({"pooling_mode_cls_token": False}, "mean"),
        ({}, "mean"),
    ],
)
def test_pooling_modes(model: Path, context: HostContext, flags: dict[str, Any], mode: str) -> None:
    write_json(model / "1_Pooling" / "config.json", {"word_embedding_dimension": HIDDEN, **flags})
    write_json(model / "modules.json", MODULES[:2])
    assert ingest(str(model), context=context).pooling == Pooling(mode=mode, normalize=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_odd": True}, "by cls_token and odd"),
        ({"pooling_mode": "magic"}, "by magic"),
        ({"pooling_mode": []}, "by nothing"),
    ],
)
def test_pooling_that_a_bundle_cannot_do(
    model: Path, context: HostContext, flags: dict[str, Any], words: str
) -> None:
    write_json(model / "1_Pooling" / "config.json", flags)
    error = refused(model, context)
    assert isinstance(error, UnsupportedModelError)
    assert words in error.message


@pytest.mark.parametrize(("value", "name"), [(1, "pooling_mode_cls_token"), ("false", "include_prompt")])
def test_a_switch_that_is_neither_on_nor_off(
    model: Path, context: HostContext, value: object, name: str
) -> None:
    write_json(model / "1_Pooling" / "config.json", {**POOLING, name: value})
    error = refused(model, context)
    assert isinstance(error, ModelError)
    assert f"{name} is {value!r}, expected true or false" in error.message


def test_a_model_that_code_of_its_own_computes(model: Path, context: HostContext) -> None:
    """It has the architecture of transformers by name alone: stella_en_1.5B_v5's Qwen2 sees the tokens after each."""
    change(model / "config.json", auto_map={"AutoModelForCausalLM": "modeling.M", "AutoModel": "modeling.M"})
    error = refused(model, context)
    assert isinstance(error, UnsupportedModelError)
    assert "computed by code that comes with it (modeling.M, auto_map in config.json)" in error.message
    assert "transformers' own 'bert'" in (error.hint or "")
    # The graph that is beside it is the model; so is what computes nothing that a bundle has.
    write_onnx(model / "onnx/model.onnx")
    assert ingest(str(model), context=context).onnx
    change(model / "config.json", auto_map={"AutoModelForCausalLM": "modeling.M"})
    assert ingest(str(model), context=context).weights
    # The graphs of some families follow such code.
    for kind in FOLLOWED:
        config = {"model_type": kind, "auto_map": {"AutoModel": "modeling.M"}}
        assert choose_weights([SAFETENSORS], config, "m", context=context) == SAFETENSORS


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("tokenizer_config.json", {"AutoTokenizer": [None, "code.T"]}),
        ("tokenizer_config.json", ["code.T", None]),
        ("config.json", {"AutoTokenizer": "code.T"}),
    ],
)
def test_tokens_that_code_of_its_own_makes(
    model: Path, context: HostContext, file: str, names: object
) -> None:
    """gte-Qwen2's puts a token at the end that tokenizer.json does not."""
    change(model / file, auto_map=names)
    error = refused(model, context)
    assert isinstance(error, UnsupportedModelError)
    assert f"(code.T, auto_map in {file})" in error.message


@pytest.mark.parametrize("name", ["tokenizer_args", "processor_kwargs", "config_args"])
def test_settings_for_transformers_that_no_file_of_the_model_has(
    model: Path, context: HostContext, name: str
) -> None:
    said = {"max_seq_length": 32, "model_args": {"torch_dtype": "float16"}, "config_kwargs": {}}
    write_json(model / "sentence_bert_config.json", said)
    assert ingest(str(model), context=context).max_length == 32
    write_json(model / "sentence_bert_config.json", {**said, name: {"do_lower_case": False}})
    error = refused(model, context)
    assert isinstance(error, UnsupportedModelError)
    assert f"sentence_bert_config.json has {name} {{'do_lower_case': False}}" in error.message


def test_the_settings_of_an_older_name_are_of_the_model(model: Path, context: HostContext) -> None:
    (model / "sentence_bert_config.json").write_text("{}")  # sentence-transformers passes it over
    keys = []
    for lowered in (True, False):
        write_json(model / "sentence_roberta_config.json", {"do_lower_case": lowered})
        keys.append(source_key(ingest(str(model), context=context))["files"])
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        (
            [*MODULES[:2], {"idx": 2, "path": "2_CNN", "type": "sentence_transformers.models.CNN"}],
            "CNN",
        ),
        ([MODULES[0], {**MODULES[1], "type": "their.Pooling"}], "their.Pooling"),
        (MODULES[:1], "Transformer"),
        ([], "nothing"),
        ([{**MODULES[0], "path": "0_Transformer"}, *MODULES[1:]], "0_Transformer"),
    ],
)
def test_modules_that_a_bundle_cannot_do(
    model: Path, context: HostContext, modules: list[dict[str, Any]], words: str
) -> None:
    write_json(model / "modules.json", modules)
    error = refused(model, context)
    assert isinstance(error, UnsupportedModelError)
    assert words in error.message


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ({"not": "a list"}, "not a list of modules"),
        ([{"idx": 0}], "not a list of modules"),
        ([MODULES[0], {**MODULES[1], "path": "../elsewhere"}], "points outside the model's folder"),
        ([MODULES[0], {**MODULES[1], "path": "/etc"}], "points outside the model's folder"),
        ([MODULES[0], {**MODULES[1], "path": "9_Pooling"}], "9_Pooling/config.json, which is not there"),
    ],
)
def test_modules_that_make_no_sense(model: Path, context: HostContext, modules: object, words: str) -> None:
    write_json(model / "modules.json", modules)
    error = refused(model, context)
    assert isinstance(error, ModelError)
    assert words in error.message


def test_modules_are_taken_in_the_order_of_their_list(model: Path, context: HostContext) -> None:
    """Whatever their ``idx`` is, which sentence-transformers does not read."""
    write_json(model / "modules.json", [{**each, "idx": -at} for at, each in enumerate(MODULES)])
    assert ingest(str(model), context=context).pooling.normalize
    write_json(model / "modules.json", MODULES[::-1])
    assert "Transformer" in refused(model, context).message


def test_two_modules_of_one_name_are_refused(model: Path, context: HostContext) -> None:
    """sentence-transformers runs the second alone."""
    write_json(model / "modules.json", [*MODULES, {**MODULES[2], "idx": 3}])
    assert "two modules of the name" in refused(model, context).message


def test_mpnet_keeps_two_positions_whatever_its_padding_is(model: Path) -> None:
    """Its architecture counts from 2 (``models/export/mpnet.py``)."""
    for name in ("sentence_bert_config.json", "tokenizer_config.json"):
        (model / name).unlink(missing_ok=True)
    config = json.loads((model / "config.json").read_text())
    write_json(model / "config.json", {**config, "model_type": "mpnet", "pad_token_id": 0})
    reach, _ = read_max_length(ModelFolder(directory=model), note=print)
    assert reach == config["max_position_embeddings"] - 2


def test_without_modules_mean_pooling_is_guessed_and_said_aloud(
    model: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model / "modules.json").unlink()
    heard: list[str] = []
    monkeypatch.setattr(context.story, "warn", heard.append)
    source = ingest(str(model), context=context)
    assert heard == list(source.warnings)
    (said,) = heard
    assert said.startswith(
        "no modules.json: mean pooling (as most models do it) and L2 normalisation are guesses"
    )
    assert source.pooling == Pooling(mode="mean", normalize=True)
    assert source.pooling_from == "guess"


@pytest.mark.parametrize(
    ("sentence", "tokenizer", "positions", "expected"),
    [
        ({"max_seq_length": 20}, {"model_max_length": 30}, 64, 20),
        ({"max_seq_length": None}, {"model_max_length": 30}, 64, 30),
        (None, {"model_max_length": 30}, 64, 30),
        (None, {"max_len": 30}, 64, 30),
        (None, {"model_max_length": 512}, 64, 64),
        ({"max_seq_length": 512}, None, 64, 64),
        (None, {"model_max_length": int(1e30)}, 64, 64),
        (None, {"model_max_length": 1e30}, 64, 64),
        (None, None, 64, 64),
        (None, None, None, 512),
    ],
)
def test_the_longest_text(
    model: Path,
    context: HostContext,
    sentence: dict[str, Any] | None,
    tokenizer: dict[str, Any] | None,
    positions: int | None,
    expected: int,
) -> None:
    for name, document in (("sentence_bert_config.json", sentence), ("tokenizer_config.json", tokenizer)):
        (model / name).unlink()
        if document is not None:
            write_json(model / name, document)
    write_json(model / "config.json", {**CONFIG, "max_position_embeddings": positions})
    assert ingest(str(model), context=context).max_length == expected


def test_positions_that_no_token_reaches_are_not_counted(model: Path, context: HostContext) -> None:
    """RoBERTa's position ids begin at padding id + 1: 514 positions hold 512 tokens."""
    config = {**CONFIG, "model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    write_json(model / "config.json", config)
    write_json(model / "sentence_bert_config.json", {"max_seq_length": 514})
    write_onnx(model / "model.onnx")
    assert ingest(str(model), context=context).max_length == 512


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("---\nlicense: mit\n---\n", "MIT"),
        ("---\r\nlicense: 'cc-by-nc-4.0' # really\r\n---\r\n", "CC-BY-NC-4.0"),
        ("---\nlicense:\n- apache-2.0\nlanguage: en\n---\n", "Apache-2.0"),
        ("---\nlicense: [gpl-3.0]\n---\n", "GPL-3.0-only"),
        ("---\nlicense: other\nlicense_name: my own/terms\n---\n", "LicenseRef-my-own-terms"),
        ("---\nlanguage: en\n---\nlicense: mit\n", None),
        ("# A card without front matter\nlicense: mit\n", None),
        ("", None),
    ],
)
def test_the_licence_comes_from_the_card(
    model: Path, context: HostContext, card: str, expected: str | None
) -> None:
    (model / "README.md").write_bytes(card.encode())
    assert ingest(str(model), context=context).license == expected


def test_a_ready_made_graph_serves_where_none_can_be_written(
    model: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(model / "config.json", {**CONFIG, "model_type": "electra"})
    monkeypatch.setattr("edgepack.models.read.architectures.find_spec", lambda name: None)
    error = refused(model, context)
    assert isinstance(error, UnsupportedModelError)
    assert "'electra'" in error.message
    write_onnx(model / "onnx" / "model.onnx")
    source = ingest(str(model), context=context)
    assert source.onnx == model / "onnx" / "model.onnx"
    assert source.weights is None
    assert "onnx/model.onnx" in [file.path for file in source.files]


def test_weights_are_preferred_to_a_ready_made_graph(model: Path, context: HostContext) -> None:
    write_onnx(model / "model.onnx")
    source = ingest(str(model), context=context)
    assert (source.weights, source.onnx) == (model / "model.safetensors", None)


def test_several_graphs_and_none_is_the_usual_one(model: Path, context: HostContext) -> None:
    (model / "model.safetensors").unlink()
    write_onnx(model / "onnx" / "model_O2.onnx")
    assert ingest(str(model), context=context).onnx == model / "onnx" / "model_O2.onnx"
    write_onnx(model / "onnx" / "model_O4.onnx")
    error = refused(model, context)
    assert "onnx/model_O2.onnx, onnx/model_O4.onnx" in error.message
    source = ingest(str(model / "onnx" / "model_O4.onnx"), context=context)
    assert source.onnx == model / "onnx" / "model_O4.onnx"
    assert source.tokenizer == model / "tokenizer.json"


def test_a_graph_that_the_user_points_at_is_taken(model: Path, context: HostContext) -> None:
    write_onnx(model / "special.onnx")
    source = ingest(str(model / "special.onnx"), context=context)
    assert (source.onnx, source.weights) == (model / "special.onnx", None)
    assert (source.name, source.origin) == ("special", "special.onnx")


@pytest.mark.parametrize("named", ["", "model.onnx"])
def test_a_graph_with_a_classifier_behind_it_is_refused(
    model: Path, context: HostContext, named: str
) -> None:
    """Its classifier was lost without a word."""
    (model / "model.safetensors").unlink()
    (model / "model_head.pkl").write_bytes(b"")
    write_onnx(model / "model.onnx")
    error = refused(model / named, context)
    assert "is a classifier (model_head.pkl) behind model.onnx" in error.message
    reading = Reading(treat_as_embedding=True)
    assert ingest(str(model / named), reading=reading, context=context).head is None


def test_a_graph_beside_nothing_but_a_tokenizer(tmp_path: Path, context: HostContext) -> None:
    write_onnx(tmp_path / "mine" / "model.onnx")
    write_json(tmp_path / "mine" / "tokenizer.json", tokenizer_document())
    source = ingest(str(tmp_path / "mine" / "model.onnx"), context=context)
    assert (source.name, source.dimension, source.max_length) == ("mine", HIDDEN, 512)


def test_a_graph_that_does_not_say_its_dimension_is_run(tmp_path: Path, context: HostContext) -> None:
    """As exporters write them: the output is called ``output``, and nothing of its shape is known."""
    graph = write_onnx(tmp_path / "mine.onnx", dimension="hidden")
    write_json(tmp_path / "tokenizer.json", tokenizer_document())
    assert "has no input attention_mask" in refused(graph, context).message
    model = onnx.load(graph)
    model.graph.input.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["b", "s"]))
    del model.graph.output[:]
    model.graph.node[0].output[0] = "output"
    model.graph.output.append(helper.make_tensor_value_info("output", TensorProto.FLOAT, None))
    onnx.save(model, graph)
    assert ingest(str(graph), context=context).dimension == HIDDEN
    model.graph.node.append(helper.make_node("Shape", ["output"], ["size"]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("size", TensorProto.INT64, None))
    onnx.save(model, graph)
    error = refused(graph, context)
    assert error.message == "no output of mine.onnx holds vectors of texts or of tokens"
    assert error.hint


def test_a_graph_that_nothing_states_the_length_of_is_run(tmp_path: Path, context: HostContext) -> None:
    write_graph_alone(tmp_path)
    file = tmp_path / "model.onnx"
    assert ingest(str(file), context=context).max_length == 40, "the rows of its position table"
    model = onnx.load(file)
    tables = {each.name: each for each in model.graph.initializer}
    tables["position_ids"].CopyFrom(numpy_helper.from_array(np.arange(800)[None], "position_ids"))
    name = "embeddings.position_embeddings.weight"
    rows = np.tile(numpy_helper.to_array(tables[name]), (20, 1))
    tables[name].CopyFrom(numpy_helper.from_array(rows, name))
    write(model, file)
    assert ingest(str(file), context=context).max_length == 512


@pytest.mark.parametrize("content", [b"this is no model", b"", b"\x08\x07", json.dumps(CONFIG).encode()])
def test_an_onnx_file_that_is_not_one(model: Path, context: HostContext, content: bytes) -> None:
    (model / "broken.onnx").write_bytes(content)
    error = refused(model / "broken.onnx", context)
    assert isinstance(error, ModelError)
    assert "broken.onnx is" in error.message


def test_a_graph_without_its_weights(model: Path, context: HostContext) -> None:
    graph = write_onnx(model / "big.onnx", external="big.onnx_data")
    assert "keeps its weights in big.onnx_data" in refused(graph, context).message
    (model / "big.onnx_data").write_bytes(b"\0" * len(WORDS) * HIDDEN * 4)
    listed = [file.path for file in ingest(str(graph), context=context).files]
    assert {"big.onnx", "big.onnx_data"} <= set(listed)


def with_constants(file: Path, place: str) -> Path:
    """A graph whose table, one of its branches' and one of its functions' constants lie in files."""

    def outside(name: str) -> onnx.NodeProto:
        tensor = onnx.TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"{place}{name}")
        return helper.make_node("Constant", [], [name], value=tensor)

    graph = onnx.load(file)
    branch = helper.make_graph([outside("branch")], "b", [], [])
    graph.graph.node.extend([outside("table"), helper.make_node("If", ["x"], ["y"], then_branch=branch)])
    graph.functions.append(helper.make_function("own", "F", [], ["function"], [outside("function")], []))
    onnx.save(graph, file)
    return file


def test_constants_in_files_are_part_of_a_graph(model: Path, context: HostContext) -> None:
    file = with_constants(write_onnx(model / "big.onnx"), "")
    assert "keeps its weights in branch" in refused(file, context).message
    for name in ("branch", "function", "table"):
        (model / name).write_bytes(bytes(4))
    listed = {each.path for each in ingest(str(file), context=context).files}
    assert {"big.onnx", "branch", "function", "table"} <= listed
    assert "points outside" in refused(with_constants(write_onnx(file), "/etc/"), context).message


def test_a_graph_with_weights_elsewhere(model: Path, context: HostContext) -> None:
    graph = write_onnx(model / "big.onnx", external="../../etc/passwd")
    assert "points outside the model's folder" in refused(graph, context).message


def test_a_tokenizer_of_another_model_beside_a_graph(tmp_path: Path) -> None:
    """Nothing but the graph's own table says how many tokens there are."""
    source, _ = write_bert(tmp_path / "model")
    folder = tmp_path / "bare"
    folder.mkdir()
    write(vector_graph(source, folder / "graph"), folder / "model.onnx")
    document = tokenizer_document()
    document["model"]["vocab"] |= {f"word{number}": 10 + number for number in range(100)}
    write_json(folder / "tokenizer.json", document)
    with pytest.raises(ModelError, match=r"token 109, the model's embedding table has 60 rows"):
        read_folder(folder, name="bare", origin="bare", graph="model.onnx")


def test_a_folder_for_tests_of_a_builder(tmp_path: Path, context: HostContext) -> None:
    folder = write_static_model(tmp_path / "static")
    assert read_model(folder, context=context) == ingest(str(folder), context=context)
    with pytest.raises(ModelError, match="is not a folder"):
        read_model(tmp_path / "nothing", context=context)


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"n_layers": 7}, "num_hidden_layers 2 and n_layers 7"), ({"dim": HIDDEN, "n_head": None}, "")],
)
def test_a_number_that_config_says_twice(
    model: Path, context: HostContext, fields: dict[str, Any], words: str
) -> None:
    write_json(model / "config.json", {**CONFIG, "num_hidden_layers": 2, **fields})
    if words:
        assert words in refused(model, context).message
    else:
        ingest(str(model), context=context)


def test_an_adapter_beside_whole_weights_is_refused(model: Path, context: HostContext) -> None:
    write_json(model / "adapter_config.json", {"base_model_name_or_path": "tiny/bert"})
    ingest(str(model), context=context)
    write_safetensors(model / "adapter_model.safetensors")
    error = refused(model, context)
    assert "holds an adapter (LoRA) and weights beside it" in error.message
    assert "take adapter_config.json away, or the weights" in str(error.hint)


def test_weights_of_another_name_are_refused(model: Path, context: HostContext) -> None:
    """transformers 5 reads the file that config.json names, and others what is called as ever."""
    said = json.loads((model / "config.json").read_text())
    write_json(model / "config.json", {**said, "transformers_weights": "model.safetensors"})
    ingest(str(model), context=context)
    write_json(model / "config.json", {**said, "transformers_weights": "other.safetensors"})
    assert "names 'other.safetensors' for its weights" in refused(model, context).message


@pytest.mark.parametrize(
    ("file", "field", "words"),
    [
        ("config_sentence_transformers.json", "new_way", "has 'new_way', which edgepack does not read"),
        ("sentence_bert_config.json", "new_way", "has 'new_way', which edgepack does not read"),
        ("config.json", "quantization_config", "taken as they are"),
    ],
)
def test_settings_that_nobody_reads_are_a_warning(
    model: Path, context: HostContext, file: str, field: str, words: str
) -> None:
    said = json.loads((model / file).read_text()) if (model / file).exists() else {}
    silent: tuple[Any, ...] = (None, {}, False)
    for value in silent:
        write_json(model / file, {**said, field: value})
        assert ingest(str(model), context=context).warnings == ()
    write_json(model / file, {**said, field: {"a": 1}})
    (warning,) = ingest(str(model), context=context).warnings
    assert words in warning
