"""Packages of npm: pinned by npm's own digest, unpacked without running anything; and which Node is taken."""

import base64
import hashlib
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edgepack.errors import DownloadError, HashMismatchError, MissingToolError, ToolError
from edgepack.plugins.context import HostContext, host_context
from edgepack_web.npm import node
from edgepack_web.npm.node import find_node
from edgepack_web.npm.package import npm_package

pytestmark = pytest.mark.tools()


@pytest.fixture
def online(context: HostContext, tmp_path: Path) -> Any:
    with host_context(story=context.story, store=context.store) as made:
        yield made


def tarball(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def packs(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[list[str]]:
    """npm's place is taken by a program that puts a tarball where it is told to."""
    calls: list[list[str]] = []

    def run(self: Any, command: Sequence[str | Path], **options: Any) -> str:
        words = [str(word) for word in command]
        calls.append(words)
        Path(words[words.index("--pack-destination") + 1], "thing-1.0.0.tgz").write_bytes(content)
        return "thing-1.0.0.tgz"

    monkeypatch.setattr(HostContext, "run", run)
    return calls


def digest(content: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def test_a_package_is_fetched_once_and_only_what_is_wanted_is_kept(
    online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = tarball({"package/dist/a.mjs": b"a", "package/dist/a.map": b"m"})
    calls = packs(monkeypatch, content)
    for _ in range(2):
        folder = npm_package("thing", "1.0.0", integrity=digest(content), keep=("*.mjs",), context=online)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.m*")}
    assert files == {"dist/a.mjs"}
    assert len(calls) == 1
    assert "--ignore-scripts" in calls[0]


def test_a_package_that_leads_out_of_its_folder_is_refused(
    online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = tarball({"package/dist/a.mjs": b"a", "package/../../evil.mjs": b"e"})
    packs(monkeypatch, content)
    with pytest.raises(DownloadError, match="leads out of it"):
        npm_package("thing", "1.0.0", integrity=digest(content), context=online)
    assert list(online.store.root.rglob("*.mjs")) == []


def test_another_package_than_the_pinned_one_is_refused(
    online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs(monkeypatch, tarball({"package/a.mjs": b"changed"}))
    with pytest.raises(HashMismatchError, match=r"thing@1\.0\.0 does not match its pinned digest"):
        npm_package("thing", "1.0.0", integrity=digest(b"what it was"), context=online)


def test_offline_says_what_would_be_fetched(context: HostContext) -> None:
    with pytest.raises(DownloadError, match=r"thing@1\.0\.0 of npm"):
        npm_package("thing", "1.0.0", integrity="sha512-x", context=context)


def test_what_npm_says_is_passed_on(online: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: Any, command: Sequence[str | Path], **options: Any) -> str:
        raise ToolError("npm failed with exit code 1:\nnpm error code E404\nnpm error 404 Not Found")

    monkeypatch.setattr(HostContext, "run", run)
    with pytest.raises(DownloadError, match=r"npm cannot fetch thing@1\.0\.0: code E404"):
        npm_package("thing", "1.0.0", integrity="sha512-x", context=online)


def node_that_says(path: Path, version: str) -> Path:
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


def test_an_old_node_is_not_taken_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = node_that_says(tmp_path / "old", "v18.19.0")
    new = node_that_says(tmp_path / "new", "v24.1.0")
    monkeypatch.setattr(node, "is_installed", lambda name: True)
    monkeypatch.setattr(node, "find", lambda name: new)
    assert find_node() == new
    monkeypatch.setattr(node, "find", lambda name: old)
    with pytest.raises(MissingToolError, match=r"Node 20 or newer is not installed: .*old is v18") as caught:
        find_node()
    assert "edgepack[web]" in str(caught.value.hint)
