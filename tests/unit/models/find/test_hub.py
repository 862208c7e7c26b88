"""Models of the hub, from a server that answers like it."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.checkpoints import older_files
from tests.support.damage import REMEMBERED, damage
from tests.support.hub import COMMIT, listing, publish
from tests.support.serving import Server, file, page, status
from tests.support.tiny import CONFIG, HIDDEN, WORDS, add_dense, files_of, write_json, write_onnx

from edgepack.errors import (
    DownloadError,
    EdgepackError,
    HashMismatchError,
    ModelError,
    UnsupportedModelError,
    UsageError,
)
from edgepack.fetch import http
from edgepack.files.store import Store
from edgepack.models.find import hub
from edgepack.models.find.source import ingest
from edgepack.models.read import documents
from edgepack.plugins.context import HostContext
from edgepack.records.layers import Dense
from edgepack.records.target import Reading


@pytest.fixture
def endpoint(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server as the hub, which says too little of its files for the hub's own library."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("HF_ENDPOINT", server.base + "/")
    return server


def refused(form: str, context: HostContext) -> EdgepackError:
    with pytest.raises(EdgepackError) as caught:
        ingest(form, context=context)
    return caught.value


def test_a_branch_is_pinned_to_its_commit(endpoint: Server, model: Path, online: HostContext) -> None:
    publish(endpoint, model)
    source = ingest("hf:tiny/bert", context=online)
    assert (source.name, source.origin) == ("tiny/bert", f"hf:tiny/bert@{COMMIT}")
    assert (source.license, source.max_length) == ("Apache-2.0", 32)
    assert source.weights is not None
    assert source.weights.read_bytes() == (model / "model.safetensors").read_bytes()


def test_only_what_is_needed_is_fetched(endpoint: Server, model: Path, online: HostContext) -> None:
    for name in ("pytorch_model.bin", "onnx/model.onnx", "train.py", "openvino/openvino_model.bin"):
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).write_bytes(b"not needed")
    # It may contradict tokenizer.json.
    (model / "special_tokens_map.json").write_text("{}")
    publish(endpoint, model)
    ingest("hf:tiny/bert", context=online)
    fetched = {path.partition("/resolve/")[2].partition("/")[2] for path in endpoint.paths()} - {""}
    assert fetched == {
        "1_Pooling/config.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "modules.json",
        "sentence_bert_config.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_a_revision_can_be_named(endpoint: Server, model: Path, online: HostContext) -> None:
    publish(endpoint, model, revision="refs%2Fpr%2F7", commit="f" * 40)
    assert ingest("hf:tiny/bert@refs/pr/7", context=online).origin == f"hf:tiny/bert@{'f' * 40}"


def test_a_token_opens_private_models_and_stays_with_the_hub(
    endpoint: Server, model: Path, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(endpoint, model, token="hf_secret")
    error = refused("hf:tiny/bert", online)
    assert isinstance(error, DownloadError)
    assert "HF_TOKEN" in (error.hint or "")
    assert "HF_TOKEN" not in http.DENIED_HINT, "what other servers' refusals say"
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    source = ingest("hf:tiny/bert", context=online)
    kept = b"".join(path.read_bytes() for path in online.store.root.rglob("*") if path.is_file())
    assert b"hf_secret" not in kept
    assert "hf_secret" not in repr(source)


def test_without_a_token_none_is_sent(endpoint: Server, model: Path, online: HostContext) -> None:
    publish(endpoint, model)
    ingest("hf:tiny/bert", context=online)
    assert not any("authorization" in asked.headers for asked in endpoint.asked)


def test_offline_the_commit_seen_last_counts(
    endpoint: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    publish(endpoint, model)
    source = ingest("hf:tiny/bert", context=online)
    asked = len(endpoint.asked)
    assert ingest("hf:tiny/bert", context=context) == source
    assert ingest(source.origin, context=context) == source, "an origin out of a manifest"
    assert ingest(source.origin, context=online) == source, "a commit does not change"
    assert len(endpoint.asked) == asked


def test_a_hub_that_is_down_does_not_stop_a_second_build(
    endpoint: Server, model: Path, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(endpoint, model)
    source = ingest("hf:tiny/bert", context=online)
    endpoint.on("/api/models/tiny/bert/revision/main", status(503))
    warned: list[str] = []
    monkeypatch.setattr(HostContext, "warn", lambda self, line: warned.append(line))
    assert ingest("hf:tiny/bert", context=online) == source
    assert [line.partition(": ")[0] for line in warned] == ["hf:tiny/bert@main"]
    assert "says 503 Service Unavailable; using the last known commit" in warned[0]


def test_a_branch_that_moved_on_is_noticed(endpoint: Server, model: Path, online: HostContext) -> None:
    publish(endpoint, model)
    ingest("hf:tiny/bert", context=online)
    write_json(model / "sentence_bert_config.json", {"max_seq_length": 16})
    publish(endpoint, model, commit="e" * 40)
    source = ingest("hf:tiny/bert", context=online)
    assert (source.origin, source.max_length) == (f"hf:tiny/bert@{'e' * 40}", 16)


def test_offline_and_not_there(endpoint: Server, context: HostContext) -> None:
    error = refused("hf:tiny/bert", context)
    assert isinstance(error, DownloadError)
    assert "hf:tiny/bert@main" in error.message
    assert endpoint.asked == []


def test_weights_that_are_not_what_the_hub_lists(endpoint: Server, model: Path, online: HostContext) -> None:
    publish(endpoint, model)
    endpoint.on(f"/tiny/bert/resolve/{COMMIT}/model.safetensors", file(b"changed on the way"))
    assert isinstance(refused("hf:tiny/bert", online), HashMismatchError)
    assert not [path for path in (online.store.root / "models").rglob("*") if path.is_file()]


def test_a_description_that_is_not_what_the_hub_lists(
    endpoint: Server, model: Path, online: HostContext
) -> None:
    publish(endpoint, model)
    right = (model / "config.json").read_bytes()
    document = json.loads(listing(files_of(model)))
    for entry in document["siblings"]:
        if entry["rfilename"] == "config.json":
            entry["blobId"] = hashlib.sha1(b"blob %d\0" % len(right) + right).hexdigest()
    endpoint.on("/api/models/tiny/bert/revision/main", page(json.dumps(document), "application/json"))
    assert ingest("hf:tiny/bert", context=online).origin == f"hf:tiny/bert@{COMMIT}"
    other = replace(online, store=Store(root=online.store.root / "other"))
    endpoint.on(f"/tiny/bert/resolve/{COMMIT}/config.json", file(right.replace(b"0", b"1")))
    with pytest.raises(HashMismatchError, match=r"config\.json of tiny/bert is not what the hub lists"):
        ingest("hf:tiny/bert", context=other)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_document_of_any_size_is_not_fetched(
    name: str, endpoint: Server, model: Path, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever answers in the hub's name filled the disk with it, and the memory."""
    publish(endpoint, model)
    monkeypatch.setattr(documents, "LONGEST", (model / name).stat().st_size - 1)
    error = refused("hf:tiny/bert", online)
    assert isinstance(error, HashMismatchError) and f"{name} is more than the" in error.message


def test_a_hub_that_answers_with_another_commit_than_it_was_asked_for(
    endpoint: Server, model: Path, online: HostContext
) -> None:
    publish(endpoint, model, revision="e" * 40, commit="f" * 40)
    error = refused(f"hf:tiny/bert@{'e' * 40}", online)
    assert isinstance(error, DownloadError) and "in the place of" in error.message


def test_no_such_model(endpoint: Server, online: HostContext) -> None:
    error = refused("hf:tiny/bert", online)
    assert isinstance(error, DownloadError)
    assert "404" in error.message
    assert "check the name" in (error.hint or "")


def test_an_answer_that_is_no_listing(endpoint: Server, online: HostContext) -> None:
    for answer in (
        "<html>welcome to the hotel</html>",
        "[]",
        '{"sha": "../..", "siblings": []}',
        '{"sha": "1"}',
    ):
        endpoint.on("/api/models/tiny/bert/revision/main", page(answer))
        error = refused("hf:tiny/bert", online)
        assert isinstance(error, DownloadError)
        assert "HF_ENDPOINT" in (error.hint or "")


def test_a_hub_that_lists_files_elsewhere_writes_none(
    endpoint: Server, model: Path, online: HostContext, tmp_path: Path
) -> None:
    files = {name: content for name, content in files_of(model).items() if name != "model.safetensors"}
    for outside in (
        f"onnx/{'../' * 30}{tmp_path}/outside.onnx",
        f"onnx//{tmp_path}/outside.onnx",
        f"{tmp_path}/outside.onnx",
    ):
        listed = listing({**files, outside: b"evil"})
        endpoint.on("/api/models/tiny/bert/revision/main", page(listed, "application/json"))
        assert "which is no path below the folder of tiny/bert" in refused("hf:tiny/bert", online).message
    assert not (tmp_path / "outside.onnx").exists()


def test_a_model_that_cannot_be_used_is_refused_before_its_weights_are_fetched(
    endpoint: Server, model: Path, online: HostContext
) -> None:
    write_json(model / "1_Pooling" / "config.json", {"pooling_mode": "magic"})
    publish(endpoint, model)
    assert isinstance(refused("hf:tiny/bert", online), UnsupportedModelError)
    assert not [path for path in endpoint.paths() if path.endswith(".safetensors")]


def test_a_reranker_is_refused_before_its_weights_are_fetched(
    endpoint: Server, model: Path, online: HostContext
) -> None:
    (model / "modules.json").unlink()
    write_json(model / "config.json", {**CONFIG, "architectures": ["BertForSequenceClassification"]})
    publish(endpoint, model)
    assert "tiny/bert is a classifier" in refused("hf:tiny/bert", online).message
    assert not [path for path in endpoint.paths() if path.endswith(".safetensors")]
    source = ingest("hf:tiny/bert", reading=Reading(treat_as_embedding=True), context=online)
    assert source.warnings[0].startswith("it is a classifier")


def test_dense_modules_come_with_their_weights(endpoint: Server, model: Path, online: HostContext) -> None:
    publish(endpoint, add_dense(model))
    source = ingest("hf:tiny/bert", context=online)
    assert (source.dimension, len(source.pooling.dense)) == (4, 1)
    (layer,) = source.pooling.dense
    assert isinstance(layer, Dense)
    assert layer.file.is_relative_to(source.directory)


def test_a_dense_module_without_weights(endpoint: Server, model: Path, online: HostContext) -> None:
    (add_dense(model) / "2_Dense" / "model.safetensors").unlink()
    publish(endpoint, model)
    error = refused("hf:tiny/bert", online)
    assert error.message == "2_Dense has no model.safetensors"
    assert "load and save" in (error.hint or "")


def test_an_adapter_and_its_base_model(
    endpoint: Server, model: Path, tmp_path: Path, online: HostContext
) -> None:
    publish(endpoint, model)
    adapter = tmp_path / "lora"
    write_json(adapter / "adapter_config.json", {"base_model_name_or_path": "tiny/bert", "lora_alpha": 2})
    table = "base_model.model.embeddings.word_embeddings.lora_embedding_"
    down, up = np.ones((1, len(WORDS)), np.float32), np.ones((HIDDEN, 1), np.float32)
    save_file({f"{table}A": down, f"{table}B": up}, adapter / "adapter_model.safetensors")
    publish(endpoint, adapter, repository="tiny/lora")
    source = ingest("hf:tiny/lora", context=online)
    assert source.origin == f"hf:tiny/lora@{COMMIT}"
    assert source.weights
    name = "embeddings.word_embeddings.weight"
    before, after = (load_file(each)[name] for each in (model / "model.safetensors", source.weights))
    np.testing.assert_array_equal(after, before + 2)


def test_a_model_with_pickled_weights_only(endpoint: Server, model: Path, online: HostContext) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    publish(endpoint, model)
    error = refused("hf:tiny/bert", online)
    assert isinstance(error, ModelError)
    assert "pytorch_model.bin is no zip archive" in error.message
    assert [path for path in endpoint.paths() if path.endswith(".bin")]


@pytest.mark.tools("python")
def test_a_model_of_older_files(endpoint: Server, model: Path, online: HostContext) -> None:
    shards = older_files(model)
    publish(endpoint, model)
    source = ingest("hf:tiny/bert", context=online)
    assert source.weights == source.directory / "pytorch_model.bin.index.json"
    assert all((source.directory / shard).is_file() for shard in shards)
    assert (source.directory / "vocab.txt").is_file()


def test_pickles_beside_other_weights_are_not_fetched(
    endpoint: Server, model: Path, online: HostContext
) -> None:
    for folder in (add_dense(model), model / "2_Dense"):
        (folder / "pytorch_model.bin").write_bytes(b"not needed")
    publish(endpoint, model)
    assert ingest("hf:tiny/bert", context=online).dimension == 4
    assert not [path for path in endpoint.paths() if path.endswith(".bin")]


def test_another_architecture_comes_with_its_graph_and_external_weights(
    endpoint: Server, model: Path, online: HostContext
) -> None:
    write_json(model / "config.json", {**CONFIG, "model_type": "electra"})
    write_onnx(model / "onnx" / "model.onnx", external="model.onnx_data")
    (model / "onnx" / "model.onnx_data").write_bytes(b"\0" * 320)
    publish(endpoint, model)
    source = ingest("hf:tiny/bert", context=online)
    assert source.onnx == source.directory / "onnx" / "model.onnx"
    assert (source.directory / "onnx" / "model.onnx_data").stat().st_size == 320


def test_the_address_of_a_model_page_is_understood(
    endpoint: Server, model: Path, online: HostContext
) -> None:
    publish(endpoint, model)
    assert ingest(f"{endpoint.base}/tiny/bert", context=online).origin == f"hf:tiny/bert@{COMMIT}"
    assert ingest(f"{endpoint.base}/tiny/bert/tree/main/", context=online).name == "tiny/bert"


@pytest.mark.parametrize("form", ["hf:", "hf:a/b/c", "hf:../etc", "hf:a b", "hf:a/b@", "hf:a/b@../../x"])
def test_forms_that_name_nothing(form: str, context: HostContext) -> None:
    error = refused(form, context)
    assert isinstance(error, ModelError)
    assert "hf:ORG/NAME" in (error.hint or "")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HF_TOKEN", "hf_secret\nmore"), ("HF_TOKEN", "tökén"), ("HF_ENDPOINT", "mirror.lan")],
)
def test_settings_that_make_no_sense(
    plain_network: None, online: HostContext, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv(variable, value)
    error = refused("hf:tiny/bert", online)
    assert isinstance(error, UsageError)
    assert variable in error.message
    assert "secret" not in error.message


def test_the_hub_itself_is_the_default(plain_network: None) -> None:
    assert hub.file_request("hf:a/b@main", "x y.json") == hub.FileRequest(
        url="https://huggingface.co/a/b/resolve/main/x%20y.json"
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", REMEMBERED)
def test_a_damaged_memory_of_the_hub_is_none(
    how: str, endpoint: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    publish(endpoint, model)
    source = ingest("hf:tiny/bert", context=online)
    damage(context.store.root / "hub", "listing.json", how)
    error = refused("hf:tiny/bert", context)
    assert isinstance(error, DownloadError) and "offline" in error.message
    if how != "a folder":
        assert ingest("hf:tiny/bert", context=online) == source
        assert ingest("hf:tiny/bert", context=context) == source


def test_a_commit_is_not_remembered_as_another(
    endpoint: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    publish(endpoint, model, revision="a" * 40, commit="a" * 40)
    publish(endpoint, model, revision="b" * 40, commit="b" * 40)
    for commit in ("a" * 40, "b" * 40):
        ingest(f"hf:tiny/bert@{commit}", context=online)
    first, second = sorted((context.store.root / "hub").glob("*/listing.json"))
    texts = first.read_text(), second.read_text()
    first.write_text(texts[1])
    second.write_text(texts[0])
    error = refused(f"hf:tiny/bert@{'a' * 40}", context)
    assert isinstance(error, DownloadError) and "offline" in error.message
    assert ingest(f"hf:tiny/bert@{'a' * 40}", context=online).origin == f"hf:tiny/bert@{'a' * 40}"


@pytest.mark.parametrize(
    "lfs", [{"sha256": 5, "size": 1}, {"sha256": "0" * 64, "size": "1"}, {"sha256": ["0"], "size": 1}, "0"]
)
def test_a_hub_that_lists_what_cannot_be(lfs: object, endpoint: Server, online: HostContext) -> None:
    listing = {"sha": COMMIT, "siblings": [{"rfilename": "config.json", "lfs": lfs}]}
    endpoint.on("/api/models/tiny/bert/revision/main", page(json.dumps(listing), "application/json"))
    error = refused("hf:tiny/bert", online)
    assert isinstance(error, DownloadError) and "answer for tiny/bert is invalid" in error.message
