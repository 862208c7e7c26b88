"""Sources of models: the one that docs/plugins.md shows, from a server on the loopback; and sources that are wrong."""

import hashlib
import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.damage import REMEMBERED, damage
from tests.support.golden import ROOT
from tests.support.network import online, plain_network, server
from tests.support.serving import Server, file, page, status
from tests.support.tiny import files_of, write_json, write_model, zipped

from edgepack.cli import cli
from edgepack.errors import (
    DownloadError,
    EdgepackError,
    HashMismatchError,
    ModelError,
    PluginError,
    UsageError,
)
from edgepack.finished_bundle import VerifyOptions, verify_again
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.bundle import Bundle

__all__ = ["online", "plain_network", "server"]

(PLUGIN,) = re.findall(
    r"```python\n(\"\"\"Models of our shelf.*?)```", (ROOT / "docs/plugins.md").read_text(), re.DOTALL
)
NEWEST = "shelf://tiny"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> Install:
    """Installs the plugin of the page, with changes to its code; the shelf is the server."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SHELF", server.base)

    def write(*changes: tuple[str, str]) -> None:
        code = PLUGIN
        for old, new in changes:
            assert old in code, old
            code = code.replace(old, new)
        (tmp_path / "edgepack_shelf.py").write_text(code)
        info = tmp_path / "edgepack_shelf-1.2.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edgepack-shelf\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text("[edgepack]\nshelf = edgepack_shelf\n")
        monkeypatch.delitem(sys.modules, "edgepack_shelf", raising=False)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    return write


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "models" / "tiny-bert")


def put(server: Server, files: dict[str, bytes], *, revision: str) -> None:
    """A model on the shelf, as its newest revision."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    listing = page(json.dumps({"revision": revision, "files": digests}))
    server.on("/tiny/newest.json", listing)
    server.on(f"/tiny/{revision}.json", listing)
    for name, content in files.items():
        server.on(f"/tiny/{revision}/{name}", file(content))


def test_what_lies_there_is_pinned_fetched_once_and_taken_offline(
    install: Install, server: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    install()
    put(server, files_of(model) | {"train.py": b"not needed", "model.onnx": b"nor this"}, revision="r1")
    source = ingest(NEWEST, context=online)
    assert (source.name, source.origin) == ("tiny", "shelf://tiny@r1")
    assert source.weights is not None
    assert source.weights.read_bytes() == (model / "model.safetensors").read_bytes()
    fetched = [path.removeprefix("/tiny/r1/") for path in server.paths() if "/r1/" in path]
    assert fetched[-1] == "model.safetensors", "what describes the model comes first"
    assert not {"train.py", "model.onnx"} & set(fetched)
    asked = len(server.asked)
    assert ingest(NEWEST, context=context) == source
    assert ingest(source.origin, context=context) == source, "an origin out of a manifest"
    assert len(server.asked) == asked, "offline, nobody is asked"
    assert ingest(source.origin, context=online) == source
    assert not [path for path in server.paths()[asked:] if "/r1/" in path], "the store has it"


def test_a_server_that_is_down_does_not_stop_a_second_build(
    install: Install, server: Server, model: Path, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    install()
    put(server, files_of(model), revision="r1")
    source = ingest(NEWEST, context=online)
    server.on("/tiny/newest.json", status(503))
    warned: list[str] = []
    monkeypatch.setattr(HostContext, "warn", lambda self, line: warned.append(line))
    assert ingest(NEWEST, context=online) == source
    (words,) = warned
    assert words.startswith(f"{NEWEST} could not be reached (cannot fetch http://")
    assert words.endswith("says 503 Service Unavailable); using shelf://tiny@r1, the last version seen")
    server.on("/tiny/newest.json", status(404))
    with pytest.raises(DownloadError, match="404"):
        ingest(NEWEST, context=online)
    server.on("/tiny/newest.json", status(403))
    with pytest.raises(DownloadError, match="403") as caught:
        ingest(NEWEST, context=online)
    assert "HF_TOKEN" not in str(caught.value.hint)


def test_another_revision_is_another_model(
    install: Install, server: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    install()
    put(server, files_of(model), revision="r1")
    first = ingest(NEWEST, context=online)
    write_json(model / "sentence_bert_config.json", {"max_seq_length": 16})
    put(server, files_of(model), revision="r2")
    second = ingest(NEWEST, context=online)
    assert (first.max_length, second.max_length) == (32, 16)
    assert second.origin == "shelf://tiny@r2"
    assert ingest(NEWEST, context=context) == second, "what was found last"
    assert ingest("shelf://tiny@r1", context=context) == first


def test_an_archive_is_unpacked_by_the_host(
    install: Install, server: Server, model: Path, online: HostContext
) -> None:
    install()
    put(server, {"tiny.zip": zipped(files_of(model, below="export/"))}, revision="r1")
    assert ingest(NEWEST, context=online).max_length == 32
    put(server, {"tiny.zip": b"PK no archive"}, revision="r2")
    with pytest.raises(ModelError, match=r"tiny\.zip cannot be unpacked"):
        ingest(NEWEST, context=online)


def test_offline_and_never_seen(install: Install, server: Server, context: HostContext) -> None:
    install()
    with pytest.raises(DownloadError, match=NEWEST):
        ingest(NEWEST, context=context)
    assert not server.asked


def test_files_that_are_not_what_is_listed(
    install: Install, server: Server, model: Path, online: HostContext
) -> None:
    install()
    put(server, files_of(model), revision="r1")
    server.on("/tiny/r1/model.safetensors", file(b"changed on the way"))
    with pytest.raises(HashMismatchError):
        ingest(NEWEST, context=online)
    assert not [path for path in (online.store.root / "models").rglob("*") if path.is_file()]


def test_what_a_source_says_on_purpose_is_said(install: Install, online: HostContext) -> None:
    install()
    with pytest.raises(ModelError, match="shelf://a/b names no model") as caught:
        ingest("shelf://a/b", context=online)
    assert caught.value.hint == "write shelf://NAME or shelf://NAME@REVISION"


FIND, FETCH = "find of source shelf", "fetch of source shelf"
DOWNLOAD = """axes.download(url, destination, sha256=listing["files"][file], progress=context.progress)"""


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("make=Shelf", "make=lambda: 1 / 0")], "failed in make of source shelf: ZeroDivisionError"),
        ([("def find(", "def look(")], f"failed in {FIND}: AttributeError"),
        ([("address: str, *, context: api.BuildContext", "address: str")], f"failed in {FIND}: TypeError"),
        ([('listing["revision"]', 'listing["commit"]')], f"failed in {FIND}: KeyError: 'commit'"),
        ([("return axes.RemoteModel(", "raise SystemExit(3)\n        return axes.RemoteModel(")], f"failed in {FIND}: it ended the program"),
        ([("return axes.RemoteModel(", "return base or axes.RemoteModel(")], f": {FIND} returned 'http://"),
        ([("return axes.RemoteModel(", "return None and axes.RemoteModel(")], f": {FIND} returned None, expected a RemoteModel"),
        ([('origin=f"shelf', 'origin=f"catalogue')], f": {FIND} gives 'tiny' the origin 'catalogue://tiny@r1', expected a name and an address of its own scheme"),
        ([("name=name", 'name=""')], f": {FIND} gives '' the origin"),
        ([('{"revision": revision}', "{}")], f": {FIND} pins tiny by {{}}"),
        ([('{"revision": revision}', '{"revision": ""}')], f": {FIND} pins tiny by"),
        ([('{"revision": revision}', '{"size": 5}')], f": {FIND}: pins is {{'size': 5}}, expected Mapping[str, str]"),
        ([('files=tuple(listing["files"])', 'files=("../../evil", "config.json")')], f": {FIND} lists '../../evil', which is no path below"),
        ([('files=tuple(listing["files"])', 'files=("/etc/passwd",)')], f": {FIND} lists '/etc/passwd'"),
        ([('files=tuple(listing["files"])', "files=(5,)")], f": {FIND}: files is (5,), expected tuple[str, ...]"),
        ([("fetch=fetch", 'fetch=fetch, graph="other.onnx"')], f": {FIND} takes the graph 'other.onnx', which it does not list"),
        ([(DOWNLOAD, "1 / 0")], f"failed in {FETCH}: ZeroDivisionError"),
        ([(DOWNLOAD, "raise SystemExit")], f"failed in {FETCH}: it ended the program"),
        ([(DOWNLOAD, "pass")], f": {FETCH} wrote no file 1_Pooling/config.json"),
        ([(DOWNLOAD, "destination.symlink_to('/etc/passwd')")], f": {FETCH} wrote no file 1_Pooling/config.json"),
        ([("fetch=fetch", "fetch=None")], f": {FIND}: fetch is None, expected Callable[[str, Path], None]"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_source_is_said_with_its_name(
    install: Install,
    server: Server,
    model: Path,
    online: HostContext,
    changes: list[tuple[str, str]],
    words: str,
) -> None:
    install(*changes)
    put(server, files_of(model), revision="r1")
    with pytest.raises(PluginError) as caught:
        ingest(NEWEST, context=online)
    assert f"plugin shelf {words}" in caught.value.message or f"plugin shelf{words}" in caught.value.message
    assert not [path for path in (online.store.root / "models").rglob("*") if path.is_file()]


def test_what_it_does_not_list_the_model_does_not_have(
    install: Install, server: Server, model: Path, online: HostContext
) -> None:
    install(("files=tuple(listing", 'files=("config.json",) or tuple(listing'))
    put(server, files_of(model), revision="r1")
    with pytest.raises(ModelError, match=r"tiny has no tokenizer\.json"):
        ingest(NEWEST, context=online)


@pytest.mark.parametrize("name", ["hf", "https", "catalogue", "s3://", "S3", "x", ""])
def test_a_scheme_that_a_source_cannot_have(install: Install, name: str) -> None:
    install(('name="shelf"', f'name="{name}"'))
    (info,) = [plugin for plugin in load_plugins().plugins if plugin.name == "shelf"]
    taken = name in ("hf", "https")
    assert (
        f"source {name} is registered already" if taken else "is no scheme that a source can have"
    ) in info.error


def test_a_scheme_that_nobody_knows(install: Install, context: HostContext) -> None:
    install()
    with pytest.raises(UsageError) as caught:
        ingest("shelv://tiny", context=context)
    assert caught.value.message == "no installed plugin fetches models from shelv:// (did you mean shelf?)"
    assert str(caught.value.hint).startswith("schemes: hf, pypi, https, http, shelf;")
    with pytest.raises(EdgepackError, match="there is no model named shelv:tiny"):
        ingest("shelv:tiny", context=context)


def test_a_file_whose_name_looks_like_an_address(
    model: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    model.rename(model.with_name("my:model"))
    assert ingest("my:model", context=context).name == "my:model"


@pytest.mark.parametrize(
    "words",
    [
        ["bundle", "--target", "linux-x86-min", "--model"],
        ["fetch", "--target", "linux-x86-min", "--model"],
        ["search", "--target", "linux-x86-min", "--model"],
        ["quantize", "-o", "made"],
        ["convert", "-o", "made.ort"],
        ["inspect"],
        ["doctor", "--url", "http://127.0.0.1:9"],
        ["runtime", "lib", "--model"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_asks_the_sources(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    install(("given is None", "print('asked') or 'tiny' in address"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / "store"))
    done = CliRunner().invoke(cli, [*words, NEWEST])
    assert isinstance(done.exception, ModelError), done.output
    assert done.exception.message == f"{NEWEST} names no model"


def test_a_source_that_only_a_manifest_names_is_not_asked(
    install: Install, server: Server, online: HostContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install()
    stranger = Bundle(
        directory=tmp_path, manifest={"name": "tiny", "model": {"origin": "shelf://tiny@r1"}, "files": []}
    )
    monkeypatch.setattr("edgepack.finished_bundle.open_bundle", lambda path: stranger)
    with pytest.raises(UsageError, match="does not fetch what a foreign bundle names"):
        verify_again(tmp_path, VerifyOptions(run=True), context=online)
    assert not server.asked


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", REMEMBERED)
def test_a_damaged_memory_of_a_source_is_none(
    how: str, install: Install, server: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    install()
    put(server, files_of(model), revision="r1")
    source = ingest(NEWEST, context=online)
    damage(context.store.root / "sources", "found.json", how)
    with pytest.raises(DownloadError, match="offline"):
        ingest(NEWEST, context=context)
    if how != "a folder":
        assert ingest(NEWEST, context=online) == source
        assert ingest(NEWEST, context=context) == source


def test_what_was_found_at_one_address_is_not_taken_for_another(
    install: Install, server: Server, model: Path, online: HostContext, context: HostContext
) -> None:
    install()
    for revision in ("r1", "r2"):
        put(server, files_of(model), revision=revision)
        ingest(f"{NEWEST}@{revision}", context=online)
    first, second = sorted((context.store.root / "sources").glob("*/found.json"))
    first.write_text(second.read_text())
    origins = []
    for revision in ("r1", "r2"):
        with suppress(DownloadError):
            origins.append((revision, ingest(f"{NEWEST}@{revision}", context=context).origin))
    assert len(origins) == 1 and origins[0][1].endswith(origins[0][0])
