"""Models of the hub by its own library: its cache, its token, large files behind a redirect; of a server that answers as the hub does."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import huggingface_hub.constants
import pytest
from tests.support.hub import COMMIT, LARGE, listing
from tests.support.serving import Asked, Behaviour, Reply, Server, page
from tests.support.tiny import files_of

from edgepack.files.store import Store
from edgepack.models import find
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext

TOKEN = "hf_kept_by_login"


@pytest.fixture
def hub(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server as the hub itself, with a cache and a place for a token of the test's own."""
    monkeypatch.setattr(find.hub, "DEFAULT_ENDPOINT", server.base)
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    yield server


def git_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def answered(content: bytes, name: str, server: Server, *, token: str | None) -> Behaviour:
    """As the hub: small files at once, large ones by a redirect to where they are stored."""
    sha256 = hashlib.sha256(content).hexdigest()
    about = {"X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}

    def stored(asked: Asked) -> Reply:
        return Reply(body=content, headers={"ETag": f'"{sha256}"'})

    def behave(asked: Asked) -> Reply:
        if token and asked.headers.get("authorization") != f"Bearer {token}":
            return Reply(status=401)
        if name.endswith(LARGE):
            # Another host, as of the hub's storage.
            where = server.on(f"/storage/{sha256}", stored).replace("127.0.0.1", "localhost")
            large = {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(len(content)), "Location": where}
            return Reply(status=302, headers={**about, **large})
        return Reply(body=content, headers={**about, "ETag": f'"{git_name(content)}"'})

    return behave


def publish(server: Server, model: Path, *, token: str | None = None) -> None:
    """A repository, its small files listed by their names in git."""
    files = files_of(model)
    said = json.loads(listing(files))
    for entry in said["siblings"]:
        entry["blobId"] = git_name(files[entry["rfilename"]])
    answer = page(json.dumps(said), "application/json")
    for path in ("main", COMMIT):
        server.on(f"/api/models/tiny/bert/revision/{path}", answer)
    for name, content in files.items():
        server.on(f"/tiny/bert/resolve/{COMMIT}/{name}", answered(content, name, server, token=token))


def of_files(server: Server) -> list[str]:
    return [path for path in server.paths() if "/resolve/" in path or "/storage/" in path]


def elsewhere(context: HostContext, folder: Path) -> HostContext:
    """The same with an empty store."""
    return replace(context, store=Store(root=folder))


def test_what_was_downloaded_is_in_the_hubs_cache_and_not_downloaded_again(
    hub: Server, model: Path, online: HostContext, tmp_path: Path
) -> None:
    publish(hub, model)
    source = ingest("hf:tiny/bert", context=online)
    assert source.weights is not None
    assert source.weights.read_bytes() == (model / "model.safetensors").read_bytes()
    snapshot = tmp_path / f"hub/models--tiny--bert/snapshots/{COMMIT}"
    assert (snapshot / "model.safetensors").read_bytes() == source.weights.read_bytes()
    assert [path for path in of_files(hub) if path.startswith("/storage/")]
    hub.asked.clear()
    again = ingest("hf:tiny/bert", context=elsewhere(online, tmp_path / "other"))
    assert again.files == source.files and of_files(hub) == []


def test_a_file_of_the_cache_that_is_another_is_not_taken(
    hub: Server, model: Path, online: HostContext, tmp_path: Path
) -> None:
    publish(hub, model)
    source = ingest("hf:tiny/bert", context=online)
    snapshot = tmp_path / f"hub/models--tiny--bert/snapshots/{COMMIT}"
    for name in ("model.safetensors", "config.json"):
        content = bytearray((snapshot / name).read_bytes())
        content[-3] ^= 1
        (snapshot / name).resolve().write_bytes(content)
    hub.asked.clear()
    again = ingest("hf:tiny/bert", context=elsewhere(online, tmp_path / "other"))
    assert again.files == source.files
    assert {path.rpartition("/")[2] for path in of_files(hub)} >= {"config.json"}


def test_the_token_of_a_login_is_used(hub: Server, model: Path, online: HostContext, tmp_path: Path) -> None:
    publish(hub, model, token=TOKEN)
    (tmp_path / "token").write_text(TOKEN)
    assert ingest("hf:tiny/bert", context=online).weights is not None
    asked = [asked for asked in hub.asked if "/storage/" in asked.path]
    assert asked and not any("authorization" in each.headers for each in asked), "the storage is another host"


@pytest.mark.parametrize("header", ["ETag", "X-Repo-Commit"])
def test_a_mirror_does_not_say_where_files_are_written(
    header: str,
    hub: Server,
    model: Path,
    online: HostContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hub's library puts both into a path: ``../../`` and all."""
    outside = tmp_path / "outside"
    publish(hub, model)
    for name, content in files_of(model).items():
        lies = {"X-Repo-Commit": COMMIT, "ETag": '"0"', "X-Error-Code": "EntryNotFound"}
        lies[header] = "../" * 30 + str(outside)[1:]

        def lie(asked: Asked, content: bytes = content, lies: dict[str, str] = lies) -> Reply:
            missing = header == "X-Repo-Commit" and asked.method == "HEAD"
            return Reply(status=404 if missing else 200, body=content, headers=lies)

        hub.on(f"/tiny/bert/resolve/{COMMIT}/{name}", lie)
    monkeypatch.setenv("HF_ENDPOINT", hub.base)
    monkeypatch.setattr(find.hub, "DEFAULT_ENDPOINT", "https://huggingface.co")
    assert ingest("hf:tiny/bert", context=online).weights is not None
    assert not outside.exists() and not (tmp_path / "hub").exists()


def test_the_cache_of_the_hub_serves_for_a_mirror(
    hub: Server, model: Path, online: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, model)
    source = ingest("hf:tiny/bert", context=online)
    hub.asked.clear()
    monkeypatch.setenv("HF_ENDPOINT", hub.base)
    monkeypatch.setattr(find.hub, "DEFAULT_ENDPOINT", "https://huggingface.co")
    again = ingest("hf:tiny/bert", context=elsewhere(online, tmp_path / "other"))
    assert again.files == source.files and of_files(hub) == []


def test_offline_the_cache_of_the_store_serves(hub: Server, model: Path, online: HostContext) -> None:
    publish(hub, model)
    source = ingest("hf:tiny/bert", context=online)
    hub.asked.clear()
    assert ingest("hf:tiny/bert", context=replace(online, offline=True)).files == source.files
    assert hub.asked == []
