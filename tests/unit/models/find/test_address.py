"""Models at an address."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from tests.support.checkpoints import older_files
from tests.support.damage import REMEMBERED, damage
from tests.support.serving import Asked, Reply, Server, file, page, status
from tests.support.tiny import (
    WORDS,
    add_dense,
    files_of,
    tarred,
    tokenizer_document,
    write_json,
    write_onnx,
    zipped,
)
from tokenizers import Tokenizer

from edgepack.errors import DownloadError, EdgepackError, HashMismatchError, ModelError, UsageError
from edgepack.files.store import digest_tree
from edgepack.models.find.source import ingest
from edgepack.models.read import documents
from edgepack.models.read.model_folder import LENGTH_FILES
from edgepack.plugins.context import HostContext


def put(server: Server, folder: Path, at: str) -> str:
    """Serve a folder's files, each with an ETag of its content, and get the folder's address."""
    for name, content in files_of(folder).items():
        server.on(f"{at}/{name}", file(content, etag=f'"{hashlib.md5(content).hexdigest()}"'))
    return server.base + at


def refused(form: str, context: HostContext) -> EdgepackError:
    with pytest.raises(EdgepackError) as caught:
        ingest(form, context=context)
    left = [path for path in (context.store.root / "models").rglob("*") if path.is_file()]
    assert left == [], "nothing half-made"
    return caught.value


@pytest.mark.parametrize("name", ["model.zip", "model.tar.gz", "model.tgz", "model.tar.zst", "model.whl"])
def test_an_archive(
    server: Server, model: Path, online: HostContext, context: HostContext, name: str
) -> None:
    files = files_of(model, below="exports/tiny/")
    if name.endswith(".zst"):
        content = zstandard.compress(tarred(files, mode="w"))
    else:
        content = zipped(files) if name.endswith(("zip", "whl")) else tarred(files)
    url = server.on(f"/models/{name}", file(content, etag='"1"'))
    source = ingest(url, context=online)
    assert (source.name, source.origin) == ("model", url)
    assert source.license == "Apache-2.0"
    assert digest_tree(source.directory) == digest_tree(model)
    assert ingest(url, context=context) == source, "offline"
    assert server.paths() == [f"/models/{name}"]


@pytest.mark.parametrize("etags", [('"1"', '"2"'), (None, None)])
def test_an_archive_that_changed_is_fetched_again(
    etags: tuple[str | None, ...], server: Server, model: Path, online: HostContext
) -> None:
    """Of a server that does not say so, too."""
    url = server.on("/m.zip", file(zipped(files_of(model)), etag=etags[0]))
    assert ingest(url, context=online).max_length == 32
    write_json(model / "sentence_bert_config.json", {"max_seq_length": 16})
    server.on("/m.zip", file(zipped(files_of(model)), etag=etags[1]))
    assert ingest(url, context=online).max_length == 16
    assert ingest(url, context=replace(online, offline=True)).max_length == 16


def test_an_archive_whose_server_answers_get_alone(server: Server, model: Path, online: HostContext) -> None:
    """As a link that was signed for GET: it was fetched once, and never again."""

    def signed(etag: str) -> Callable[[Asked], Reply]:
        sent = file(zipped(files_of(model)), etag=etag)
        return lambda asked: Reply(status=403) if asked.method == "HEAD" else sent(asked)

    url = server.on("/m.zip", signed('"1"'))
    assert ingest(url, context=online).max_length == 32
    asked = len(server.paths("GET"))
    assert ingest(url, context=online).max_length == 32
    assert len(server.paths("GET")) == asked + 1, "asked, and not fetched"
    write_json(model / "sentence_bert_config.json", {"max_seq_length": 16})
    server.on("/m.zip", signed('"2"'))
    assert ingest(url, context=online).max_length == 16


def test_a_server_that_is_down_does_not_stop_a_second_build(
    server: Server, model: Path, online: HostContext
) -> None:
    url = server.on("/m.zip", file(zipped(files_of(model)), etag='"1"'))
    source = ingest(url, context=online)
    server.on("/m.zip", status(503))
    with online.story.step("model") as step:
        assert ingest(url, context=online) == source
    assert any("cannot be reached" in note for note in step.notes)


def test_a_pinned_archive(server: Server, model: Path, online: HostContext, context: HostContext) -> None:
    content = zipped(files_of(model))
    digest = hashlib.sha256(content).hexdigest()
    url = server.on("/m.zip", file(content))
    source = ingest(f"{url}#sha256={digest.upper()}", context=online)
    assert source.origin == f"{url}#sha256={digest}"
    asked = len(server.asked)
    assert ingest(source.origin, context=context) == source
    assert ingest(source.origin, context=online) == source
    assert len(server.asked) == asked, "what is pinned need not be asked for"
    error = refused_digest(f"{url}#sha256={'0' * 64}", online)
    assert digest in error.message
    assert "0" * 64 in error.message


def refused_digest(form: str, context: HostContext) -> HashMismatchError:
    with pytest.raises(HashMismatchError) as caught:
        ingest(form, context=context)
    return caught.value


def test_secrets_in_an_address_are_not_recorded(server: Server, model: Path, online: HostContext) -> None:
    server.on("/m.zip", file(zipped(files_of(model)), etag='"1"'))
    url = server.base.replace("//", "//me:hunter2@") + "/m.zip?signature=hunter2"
    source = ingest(url, context=online)
    assert source.origin == f"{server.base}/m.zip"
    assert server.asked[-1].path == "/m.zip?signature=hunter2"
    kept = b"".join(path.read_bytes() for path in online.store.root.rglob("*") if path.is_file())
    assert b"hunter2" not in kept


def test_a_folder(server: Server, model: Path, online: HostContext, context: HostContext) -> None:
    (model / "train.csv").write_text("not needed")
    url = put(server, model, "/models/tiny-bert")
    source = ingest(url, context=online)
    assert (source.name, source.origin) == ("tiny-bert", url)
    (model / "train.csv").unlink()
    assert digest_tree(source.directory) == digest_tree(model)
    assert ingest(f"{url}/", context=context) == source, "offline, with or without the last slash"


def test_a_document_of_any_size_is_not_fetched(
    server: Server, model: Path, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = put(server, model, "/models/tiny-bert")
    monkeypatch.setattr(documents, "LONGEST", 100)
    with pytest.raises(HashMismatchError, match=r"\.json is more than the 100 bytes"):
        ingest(url, context=online)


def test_a_folder_with_a_dense_module(server: Server, model: Path, online: HostContext) -> None:
    source = ingest(put(server, add_dense(model), "/models/tiny-bert"), context=online)
    assert (source.dimension, len(source.pooling.dense)) == (4, 1)


def test_a_folder_with_a_module_of_any_name(server: Server, model: Path, online: HostContext) -> None:
    dense = add_dense(model) / "2_Dense"
    dense.rename(model / "7_Dense_b")
    change_modules(model, "2_Dense", "7_Dense_b")
    source = ingest(put(server, model, "/models/tiny-bert"), context=online)
    assert (source.dimension, len(source.pooling.dense)) == (4, 1)


def change_modules(model: Path, before: str, after: str) -> None:
    file = model / "modules.json"
    file.write_text(file.read_text().replace(before, after))


@pytest.mark.tools("python")
def test_a_folder_of_older_files(
    server: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    """A sharded checkpoint of PyTorch, and a vocabulary."""
    shards = older_files(model)
    url = put(server, model, "/m")
    source = ingest(url, context=online)
    assert source.weights == source.directory / "pytorch_model.bin.index.json"
    assert all((source.directory / shard).is_file() for shard in shards)
    assert not (source.directory / "tokenizer.json").exists()
    assert Tokenizer.from_file(str(source.tokenizer)).get_vocab_size() == len(WORDS)
    assert ingest(url, context=context) == source, "offline"


def test_a_folder_without_one_of_its_shards(server: Server, model: Path, online: HostContext) -> None:
    (shard, *_) = older_files(model)
    (model / shard).unlink()
    error = refused(put(server, model, "/m"), online)
    assert error.message == f"m has no {shard}, which its pytorch_model.bin.index.json names"
    assert error.hint == "get the model whole"


def test_an_index_that_leads_out(server: Server, model: Path, online: HostContext) -> None:
    older_files(model)
    write_json(model / "pytorch_model.bin.index.json", {"weight_map": {"a": "../secret.bin"}})
    assert "does not say which tensor" in refused(put(server, model, "/m"), online).message
    assert not [path for path in server.paths() if "secret" in path]


def test_an_index_of_too_many_files_is_refused_before_they_are_asked_for(
    server: Server, model: Path, online: HostContext
) -> None:
    older_files(model)
    shards = {f"t{at}": f"m{at}.bin" for at in range(1_001)}
    write_json(model / "pytorch_model.bin.index.json", {"weight_map": shards})
    error = refused(put(server, model, "/m"), online)
    assert f"pytorch_model.bin.index.json at {server.base}/m name 1,0" in error.message
    assert not [path for path in server.paths("HEAD") if "/m1" in path]


def test_a_folder_with_a_graph(server: Server, model: Path, online: HostContext) -> None:
    (model / "model.safetensors").unlink()
    write_onnx(model / "onnx" / "model.onnx", external="model.onnx_data")
    (model / "onnx" / "model.onnx_data").write_bytes(b"\0" * 320)
    source = ingest(put(server, model, "/m"), context=online)
    assert source.onnx == source.directory / "onnx" / "model.onnx"
    assert (source.directory / "onnx" / "model.onnx_data").is_file()


def test_a_folder_that_changed_is_fetched_again(server: Server, model: Path, online: HostContext) -> None:
    url = put(server, model, "/m")
    ingest(url, context=online)
    write_json(model / "sentence_bert_config.json", {"max_seq_length": 16})
    put(server, model, "/m")
    assert ingest(url, context=online).max_length == 16


@pytest.mark.parametrize("form", ["/m", "/m/onnx/model.onnx"])
def test_a_graphs_data_that_changed_is_fetched_again(
    server: Server, model: Path, online: HostContext, form: str
) -> None:
    """The graph of a model that was trained further is the same; "up to date" was said of the old data, and "verified"."""
    (model / "model.safetensors").unlink()
    write_onnx(model / "onnx" / "model.onnx", external="model.onnx_data")
    data = model / "onnx" / "model.onnx_data"
    for number in b"\0", b"\1":
        data.write_bytes(number * 320)
        url = put(server, model, "/m").removesuffix("/m") + form
        for context in (online, replace(online, offline=True)):
            found = ingest(url, context=context)
            assert (found.directory / "onnx" / "model.onnx_data").read_bytes() == number * 320
    assert server.paths("GET").count("/m/onnx/model.onnx") == 1, "and the graph once"


def test_a_graph_that_is_not_taken_is_not_fetched(server: Server, model: Path, online: HostContext) -> None:
    (model / "onnx").mkdir()
    (model / "onnx" / "model.onnx").write_text("whatever this is")
    assert ingest(put(server, model, "/m"), context=online).weights is not None
    assert "/m/onnx/model.onnx" not in server.paths("GET")


@pytest.mark.parametrize("name", LENGTH_FILES)
def test_a_folder_with_a_length_under_each_name(
    server: Server, model: Path, online: HostContext, name: str
) -> None:
    """Those of older versions were not asked for, and the vectors were of other lengths and letters."""
    (model / "sentence_bert_config.json").unlink()
    write_json(model / name, {"max_seq_length": 20})
    assert ingest(put(server, model, "/m"), context=online).max_length == 20


def test_a_folder_with_an_adapter_beside_its_weights(
    server: Server, model: Path, online: HostContext
) -> None:
    """As a folder on this disk is refused."""
    write_json(model / "adapter_config.json", {"peft_type": "LORA"})
    (model / "adapter_model.safetensors").write_bytes(b"")
    assert (
        "holds an adapter (LoRA) and weights beside it" in refused(put(server, model, "/m"), online).message
    )


@pytest.mark.parametrize("during", ["tokenizer.json", "onnx/model.onnx", "onnx/model.onnx_data"])
def test_a_folder_that_changes_while_it_is_fetched_is_refused(
    server: Server, model: Path, online: HostContext, during: str
) -> None:
    """The tokenizer of one version and the weights of another were verified, and kept under the name of the first."""
    (model / "model.safetensors").unlink()
    write_onnx(model / "onnx" / "model.onnx", external="model.onnx_data")
    (model / "onnx" / "model.onnx_data").write_bytes(b"\0" * 320)
    url = put(server, model, "/m")
    (before,) = server.behaviours[f"/m/{during}"]

    def publish(asked: Asked) -> Reply:
        if asked.method == "GET":
            with (model / "tokenizer.json").open("a") as stream:
                stream.write("\n")
            (model / "onnx" / "model.onnx_data").write_bytes(b"\1" * 320)
            write_onnx(model / "onnx" / "model.onnx", external="model.onnx_data", dimension="d")
            put(server, model, "/m")
        return before(asked)

    server.on(f"/m/{during}", publish)
    error = refused(url, online)
    assert isinstance(error, DownloadError)
    assert error.message.endswith(" was changed while the model was fetched")
    assert ingest(url, context=online).directory.is_dir(), "the new one, whole"


def test_a_file_that_ends_before_its_end_is_refused(server: Server, model: Path, online: HostContext) -> None:
    """Of a server that ends a file by ending the connection, as HTTP/1.0 has it."""
    url = put(server, model, "/m")
    content = (model / "tokenizer.json").read_bytes()

    def broken(asked: Asked) -> Reply:
        return Reply(body=content + b" " if asked.method == "HEAD" else content, headers={"ETag": '"1"'})

    server.on("/m/tokenizer.json", broken)
    size = len(content)
    assert refused(url, online).message == f"{url}/tokenizer.json has {size + 1} bytes, and {size} came"


def test_a_graph_beside_its_tokenizer(server: Server, tmp_path: Path, online: HostContext) -> None:
    write_onnx(tmp_path / "mine" / "small.onnx")
    write_json(tmp_path / "mine" / "tokenizer.json", tokenizer_document())
    url = put(server, tmp_path / "mine", "/m") + "/small.onnx"
    source = ingest(url, context=online)
    assert source.onnx == source.directory / "small.onnx"
    assert (source.name, source.dimension) == ("small", 8)


def test_a_graph_in_the_hubs_folder_for_graphs(server: Server, model: Path, online: HostContext) -> None:
    write_onnx(model / "onnx" / "model.onnx")
    source = ingest(put(server, model, "/m/tiny") + "/onnx/model.onnx", context=online)
    assert source.onnx == source.directory / "onnx" / "model.onnx"
    assert source.weights is None
    assert (source.name, source.max_length) == ("tiny", 32)


def test_a_graph_that_is_not_there(server: Server, model: Path, online: HostContext) -> None:
    error = refused(put(server, model, "/m") + "/missing.onnx", online)
    assert isinstance(error, DownloadError)
    assert "/m/missing.onnx" in error.message


def test_a_folder_without_a_model(server: Server, online: HostContext) -> None:
    error = refused(f"{server.base}/nothing", online)
    assert isinstance(error, ModelError)
    assert "no model found at" in error.message
    assert ".tar.zst" in (error.hint or "")


def test_a_folder_without_a_tokenizer(server: Server, model: Path, online: HostContext) -> None:
    (model / "tokenizer.json").unlink()
    assert "has no tokenizer.json" in refused(put(server, model, "/m"), online).message
    assert not [path for path in server.paths() if path.endswith(".safetensors")]


def test_an_archive_that_is_a_web_page(server: Server, online: HostContext) -> None:
    url = server.on("/m.zip", page("<html>please log in</html>"))
    error = refused(url, online)
    assert isinstance(error, ModelError)
    assert "m.zip cannot be unpacked" in error.message


def test_an_archive_that_leads_out(server: Server, online: HostContext) -> None:
    url = server.on("/m.zip", file(zipped({"../../evil": b"x"})))
    assert "leads out" in refused(url, online).message


def test_no_such_archive(server: Server, online: HostContext) -> None:
    error = refused(f"{server.base}/missing.zip", online)
    assert isinstance(error, DownloadError)
    assert "404" in error.message


def test_offline_and_not_there(server: Server, model: Path, context: HostContext) -> None:
    for form in ("/m.zip", "/m.zip#sha256=" + "0" * 64, "/m", "/m.onnx"):
        error = refused(server.base + form, context)
        assert isinstance(error, DownloadError)
        assert "offline" in error.message
    assert server.asked == []


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("http://device.invalid/m.zip", "not an https URL"),
        (
            "ftp://device.invalid/m.zip",
            "no installed plugin fetches models from ftp:// (did you mean http?)",
        ),
        ("https://", "not an https URL"),
        ("https:///m.zip", "not an https URL"),
        ("https://[", "its host or port is malformed"),
        ("https://device.invalid:pass/m.zip", "its host or port is malformed"),
        ("https://device.invalid/m.zip#sha256=12", "is not a digest"),
        ("https://device.invalid/m.zip#readme", "is not a digest"),
        ("https://device.invalid/model#sha256=" + "0" * 64, "only valid in the URL of an archive"),
    ],
)
def test_addresses_that_are_not_taken(form: str, words: str, online: HostContext) -> None:
    error = refused(form, online)
    assert isinstance(error, UsageError)
    assert words in error.message


def test_what_was_fetched_serves_an_offline_build(
    server: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    url = server.on("/m.zip", lambda asked: Reply(body=zipped(files_of(model))))
    fetched = ingest(url, context=online)
    assert ingest(url, context=context) == fetched


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", REMEMBERED)
def test_a_damaged_memory_of_an_address_is_none(
    how: str, server: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    url = put(server, model, "/models/tiny")
    source = ingest(url, context=online)
    damage(context.store.root / "addresses", "seen.json", how)
    with pytest.raises(DownloadError):
        ingest(url, context=context)
    if how != "a folder":
        assert ingest(url, context=online) == source
        assert ingest(url, context=context) == source
