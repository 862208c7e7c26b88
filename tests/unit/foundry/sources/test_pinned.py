"""Sources come from what the user names, the store, upstream or Debian, and are what was pinned."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.errors import DownloadError, HashMismatchError, MissingToolError, UsageError
from edgepack.fetch.debian import Package, fetch_packages
from edgepack.files.store import Store
from edgepack.foundry.releases.registry import RELEASE, find_release
from edgepack.foundry.sources import pinned
from edgepack.foundry.sources.pinned import Archive, fetch_archives, store_path
from edgepack.plugins.context import HostContext, host_context

pytestmark = pytest.mark.tools(may=("apt-get",))

CONTENT = b"the sources"
ARCHIVE = Archive(
    file="lib_1.0.orig.tar.gz",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    debian=Package(suite="trixie", kind="source", name="lib"),
)
APT = """\
#!/bin/sh
echo "$@" >> "{folder}/calls"
case "$*" in
    *indextargets*) echo "Debian|http://mirror.example/debian/|bookworm|main" ;;
    *update*) cp "$(echo "$*" | sed 's/.*sourcelist=\\([^ ]*\\).*/\\1/')" "{folder}/suite" ; exit {update} ;;
    *source*) printf '%s' "{content}" > lib_1.0.orig.tar.gz ;;
esac
"""


@pytest.fixture
def online(tmp_path: Path) -> Iterator[HostContext]:
    with host_context(story=Story(quiet=True), store=Store(root=tmp_path / "store")) as made:
        yield made


def fake_apt(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, content: str = "the sources", update: int = 0
) -> Path:
    programs = folder / "programs"
    programs.mkdir()
    (programs / "apt-get").write_text(APT.format(folder=folder, content=content, update=update))
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    return folder


def fetch(context: HostContext) -> Path:
    (found,) = fetch_archives([(ARCHIVE,)], context=context)
    return found


def test_every_source_of_the_release_is_pinned() -> None:
    known = RELEASE.catalogue
    archives = [archive for part in known.parts.values() for archive in part.archives]
    archives += known.protoc.packages
    assert all(len(archive.sha256) == 64 and int(archive.sha256, 16) for archive in archives)
    assert all(archive.url or archive.debian for archive in archives)
    assert all(part.license and part.upstream and part.license_files for part in known.parts.values())
    assert known.parts["onnxruntime"].version == "1.21.0"


def test_a_release_that_is_not_known() -> None:
    with pytest.raises(UsageError, match=r"ONNX Runtime 0\.1"):
        find_release("0.1")


def test_a_folder_that_the_user_names(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine/deep"
    folder.mkdir(parents=True)
    (folder / ARCHIVE.file).write_bytes(CONTENT)
    monkeypatch.setenv("EDGEPACK_SOURCES", str(tmp_path / "mine"))
    found = fetch(context)
    assert found.read_bytes() == CONTENT and found.is_relative_to(context.store.root)


def test_an_archive_that_the_user_names(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ARCHIVE.file).write_bytes(CONTENT)
    monkeypatch.setenv("EDGEPACK_SOURCES", str(tmp_path / ARCHIVE.file))
    assert fetch(context).read_bytes() == CONTENT


def test_a_folder_that_is_not_there(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEPACK_SOURCES", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="nowhere"):
        fetch(context)


def test_another_content_than_the_pinned_one_is_refused(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ARCHIVE.file).write_bytes(b"other sources")
    monkeypatch.setenv("EDGEPACK_SOURCES", str(tmp_path))
    with pytest.raises(HashMismatchError) as caught:
        fetch(context)
    assert ARCHIVE.sha256 in caught.value.message
    assert hashlib.sha256(b"other sources").hexdigest() in caught.value.message


def test_an_archive_that_is_exchanged_after_it_was_compared_is_not_kept(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, check = tmp_path / ARCHIVE.file, pinned._check
    file.write_bytes(CONTENT)
    monkeypatch.setenv("EDGEPACK_SOURCES", str(tmp_path))

    def exchanged(checked: Path, archive: Archive) -> None:
        check(checked, archive)
        file.write_bytes(b"other sources")

    monkeypatch.setattr(pinned, "_check", exchanged)
    with pytest.raises(HashMismatchError):
        fetch(context)
    assert not store_path(ARCHIVE, context).exists()


def test_offline_names_what_is_missing(context: HostContext) -> None:
    with pytest.raises(DownloadError, match=r"lib_1\.0\.orig\.tar\.gz not in the cache.*--offline") as caught:
        fetch(context)
    assert "EDGEPACK_SOURCES" in str(caught.value.hint)


def test_debian_s_package_and_then_the_store(
    online: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch)
    assert fetch(online).read_bytes() == CONTENT
    suite = (tmp_path / "suite").read_text()
    assert "URIs: http://mirror.example/debian/\n" in suite and "Suites: trixie\n" in suite
    calls = (tmp_path / "calls").read_text()
    assert "source --download-only --tar-only lib" in calls
    assert "Dir::State::lists=" in calls and "Dir::Cache=" in calls
    with host_context(story=Story(quiet=True), store=online.store, offline=True) as offline:
        assert fetch(offline).read_bytes() == CONTENT
    assert (tmp_path / "calls").read_text() == calls


def test_a_package_of_another_architecture(
    online: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    foreign = Package(suite="trixie", kind="deb", name="libc6:arm64")
    fetch_packages([foreign], tmp_path / "packages", context=online)
    assert "Architectures: amd64 arm64\n" in (tmp_path / "suite").read_text()
    asked = next(line for line in (tmp_path / "calls").read_text().splitlines() if "download" in line)
    assert "APT::Architectures::=amd64" in asked and "APT::Architectures::=arm64" in asked
    assert asked.endswith("download libc6:arm64")


def test_a_damaged_archive_in_the_store_is_fetched_again(
    online: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch)
    stored = store_path(ARCHIVE, online)
    stored.parent.mkdir(parents=True)
    stored.write_bytes(b"half")
    assert fetch(online).read_bytes() == CONTENT


def test_a_mirror_with_another_version(
    online: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch, content="newer sources")
    with pytest.raises(HashMismatchError, match="is not the"):
        fetch(online)
    assert not store_path(ARCHIVE, online).exists()


def test_no_network(online: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_apt(tmp_path, monkeypatch, update=100)
    with pytest.raises(DownloadError, match="package lists of trixie") as caught:
        fetch(online)
    assert "EDGEPACK_SOURCES" in str(caught.value.hint)


def test_no_apt_get(online: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match=r"apt-get is not installed.*lib_1\.0\.orig") as caught:
        fetch(online)
    assert "EDGEPACK_SOURCES" in str(caught.value.hint)
