"""The archive: the same bytes each time, readable by tar, and no way out of the folder it is unpacked in."""

import errno
import gzip
import io
import lzma
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from edgepack.bundles.archive import archive_of, pack, unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.errors import BundleError, DiskFullError, OutputError
from edgepack.files.frames import frame
from edgepack.files.pack import MTIME
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle

from .conftest import names_in

pytestmark = pytest.mark.tools("gcc", "tar")

Assembled = Callable[..., Bundle]


def members(archive: Path) -> list[tarfile.TarInfo]:
    """What tar sees."""
    with archive.open("rb") as stream:
        content = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True).read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return tar.getmembers()


def packed(path: Path, *entries: tuple[str, bytes | str]) -> Path:
    """A hand-made archive: name and content, or name and ``"-> LINK"``, or name and ``"dir"``."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.type = tarfile.DIRTYPE if content == "dir" else tarfile.SYMTYPE
                info.linkname = content.removeprefix("-> ") if content != "dir" else ""
                tar.addfile(info)
    path.write_bytes(zstandard.compress(buffer.getvalue()))
    return path


def test_the_archive_lies_beside_the_folder_and_unpacks_to_the_same_bundle(
    bundle: Bundle, tmp_path: Path, context: HostContext
) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive == bundle.directory.with_name("tiny.tar.zst")
    unpacked = unpack_bundle(archive, tmp_path / "elsewhere")
    assert unpacked == tmp_path / "elsewhere"
    assert open_bundle(unpacked).manifest == bundle.manifest
    assert subprocess.run([unpacked / "embed"], capture_output=True, check=True).stdout == b"hello\n"
    assert (unpacked / "_internal" / "data").readlink() == Path("data.bin")


def test_two_folders_of_one_bundle_pack_to_the_same_bytes(
    assembled: Assembled, tmp_path: Path, context: HostContext
) -> None:
    first = pack(assembled(tmp_path / "a" / "first"), tmp_path / "a" / "first.tar.zst", context=context)
    second = assembled(tmp_path / "b" / "second")
    for path in second.directory.rglob("*"):
        os.utime(path, (1e9, 1e9), follow_symlinks=False)
    packed_again = pack(second, archive_of(second.directory), context=context)
    assert first.archive is not None and packed_again.archive is not None
    assert first.archive.read_bytes() == packed_again.archive.read_bytes()


def test_members_say_nothing_of_the_host(bundle: Bundle, context: HostContext) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    found = members(archive)
    assert found[0].name == bundle.name
    assert all(member.name == bundle.name or member.name.startswith(f"{bundle.name}/") for member in found)
    assert {(member.uid, member.gid, member.uname, member.gname) for member in found} == {(0, 0, "", "")}
    assert {member.mtime for member in found} == {MTIME}
    assert {oct(member.mode) for member in found if member.isfile()} == {"0o755", "0o644"}


@pytest.fixture
def frame_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 100 bytes are large ones."""
    monkeypatch.setattr("edgepack.bundles.archive.LARGE", 100)


@pytest.mark.usefixtures("frame_each")
def test_large_files_come_last_and_are_frames_of_their_own(
    bundle: Bundle, tmp_path: Path, context: HostContext
) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    sizes = [member.size for member in members(archive)]
    large = [size >= 100 for size in sizes]
    assert large == sorted(large) and sum(large) > 3
    content = archive.read_bytes()
    for path in bundle.directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            alone = frame(path, store=context.store).read_bytes()
            assert (alone in content) == (path.stat().st_size >= 100)
    assert open_bundle(unpack_bundle(archive, tmp_path / "out")).manifest == bundle.manifest


@pytest.mark.usefixtures("frame_each")
def test_what_was_compressed_is_not_compressed_again(
    bundle: Bundle, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    before = archive.read_bytes()
    monkeypatch.delattr(zstandard, "ZstdCompressor")
    assert pack(bundle, archive, context=context).archive == archive
    assert archive.read_bytes() == before


@pytest.mark.usefixtures("frame_each")
def test_a_file_that_changed_after_the_manifest_is_not_kept_under_its_old_digest(
    bundle: Bundle, tmp_path: Path, context: HostContext
) -> None:
    model = bundle.directory / "model" / "model.onnx"
    right = model.read_bytes()
    model.write_bytes(bytes(len(right)))
    pack(bundle, tmp_path / "wrong.tar.zst", context=context)
    model.write_bytes(right)
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    assert (unpack_bundle(archive, tmp_path / "out") / "model" / "model.onnx").read_bytes() == right


@pytest.mark.parametrize("large", [100, 10**9])
def test_the_system_s_tar_reads_it(
    large: int, bundle: Bundle, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack.bundles.archive.LARGE", large)
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    (tmp_path / "out").mkdir()
    reader = zstandard.ZstdDecompressor().stream_reader(archive.read_bytes(), read_across_frames=True)
    subprocess.run(["tar", "-x", "-C", tmp_path / "out"], input=reader.read(), check=True)
    assert open_bundle(tmp_path / "out" / bundle.name).manifest == bundle.manifest


def test_a_failed_pack_keeps_the_archive_that_was_there(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, context: HostContext
) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    before = archive.read_bytes()

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(DiskFullError):
        pack(bundle, archive_of(bundle.directory), context=context)
    assert archive.read_bytes() == before
    assert names_in(archive.parent) == ["tiny", "tiny.tar.zst"]


@pytest.mark.parametrize("keep", [0, 10, 1000, -20])
def test_an_archive_that_was_cut_off_is_refused(
    bundle: Bundle, tmp_path: Path, keep: int, context: HostContext
) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(BundleError, match="damaged"):
        unpack_bundle(archive, tmp_path / "out" / "bundle")
    assert not (tmp_path / "out" / "bundle").exists()


def test_a_changed_byte_is_noticed(bundle: Bundle, tmp_path: Path, context: HostContext) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 0x55
    archive.write_bytes(content)
    with pytest.raises(BundleError):
        unpack_bundle(archive, tmp_path / "out" / "bundle")
    assert not (tmp_path / "out" / "bundle").exists()


@pytest.mark.parametrize(
    "entry",
    [
        ("../evil", b"x"),
        ("/evil", b"x"),
        ("top/../../evil", b"x"),
        ("top", b"x"),
        ("top/link", "-> /etc"),
        ("top/link", "-> ../../outside"),
    ],
)
def test_nothing_is_written_outside_the_folder(tmp_path: Path, entry: tuple[str, bytes | str]) -> None:
    archive = packed(tmp_path / "evil.tar.zst", entry, ("top/manifest.json", b"{}"))
    with pytest.raises(BundleError):
        unpack_bundle(archive, tmp_path / "out" / "bundle")
    assert not (tmp_path / "out" / "bundle").exists()
    assert not (tmp_path / "evil").exists() and not (tmp_path / "out" / "evil").exists()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    archive = packed(
        tmp_path / "evil.tar.zst",
        ("top/a", "dir"),
        ("top/b", "-> a"),
        ("top/a", "-> ../.."),
        ("top/b/evil", b"x"),
    )
    with pytest.raises(BundleError):
        unpack_bundle(archive, tmp_path / "out" / "bundle")
    assert list(tmp_path.rglob("evil")) == []


def test_what_is_no_archive_is_said(tmp_path: Path) -> None:
    (tmp_path / "text.tar.zst").write_text("not an archive at all")
    with pytest.raises(BundleError, match="is not a bundle's archive"):
        unpack_bundle(tmp_path / "text.tar.zst", tmp_path / "out")
    with pytest.raises(BundleError, match="cannot be read"):
        unpack_bundle(tmp_path / "nowhere.tar.zst", tmp_path / "out")
    other = packed(tmp_path / "other.tar.zst", ("top/readme.txt", b"hello"))
    with pytest.raises(BundleError, match=r"there is no manifest\.json"):
        unpack_bundle(other, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_not_unpacked_over(
    bundle: Bundle, tmp_path: Path, context: HostContext
) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    with pytest.raises(OutputError, match="already exists"):
        unpack_bundle(archive, bundle.directory)
    assert open_bundle(bundle.directory) == bundle


def test_what_unpacks_to_more_than_is_allowed_is_refused(
    bundle: Bundle, tmp_path: Path, context: HostContext
) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    with pytest.raises(BundleError, match="it unpacks to far more than"):
        unpack_bundle(archive, tmp_path / "out", most=5_000)
    assert not (tmp_path / "out").exists()
    assert unpack_bundle(archive, tmp_path / "out", most=10_000_000).is_dir()


def test_a_bundle_that_says_it_is_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """655 kB were 20 GB once."""
    large = tarfile.TarInfo("tiny/model.bin")
    large.size = 20 << 30
    head = large.tobuf(tarfile.GNU_FORMAT)
    tar = packed(tmp_path / "manifest", ("tiny/manifest.json", b"{}"))
    (tmp_path / "bomb.tar.zst").write_bytes(
        zstandard.compress(zstandard.decompress(tar.read_bytes())[:1024] + head + bytes(4096))
    )
    with pytest.raises(BundleError, match="it unpacks to far more than"):
        unpack_bundle(tmp_path / "bomb.tar.zst", tmp_path / "out")


def test_folders_are_0755_whatever_the_umask_says(
    bundle: Bundle, tmp_path: Path, context: HostContext
) -> None:
    archive = pack(bundle, archive_of(bundle.directory), context=context).archive
    assert archive is not None
    before = os.umask(0)
    try:
        unpacked = unpack_bundle(archive, tmp_path / "out")
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o7777 for path in (unpacked, *unpacked.rglob("*")) if path.is_dir()}
    assert modes == {0o755}
    open_bundle(unpacked)


def tarball(entries: dict[str, bytes | Path]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in entries.items():
            if isinstance(content, Path):
                tar.add(content, name)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_a_bundle_in_a_layer_of_an_image_is_found_and_taken_as_it_is(
    compress: Callable[[bytes], bytes], bundle: Bundle, tmp_path: Path
) -> None:
    layer = compress(tarball({"opt/embed": bundle.directory}))
    image = {"index.json": b"{}", "blobs/sha256/0a": b"ustar" * 100, "blobs/sha256/ff": layer}
    (tmp_path / "image.oci.tar").write_bytes(tarball(dict(image)))
    inside = open_bundle(unpack_bundle(tmp_path / "image.oci.tar", tmp_path / "out"))
    assert digest(inside) == digest(bundle)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".layer-")] == []


def test_an_image_without_a_bundle_says_what_a_package_holds(tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(tarball({"blobs/1": tarball({"etc/passwd": b"x"})}))
    with pytest.raises(BundleError, match=r"there is no manifest\.json in it") as caught:
        unpack_bundle(tmp_path / "image.tar", tmp_path / "out")
    assert "the layer of an image" in str(caught.value.hint)


@pytest.mark.slow
def test_a_layer_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(300 << 20), 9)
    (tmp_path / "image.tar").write_bytes(tarball({"blobs/1": bomb}))
    with pytest.raises(BundleError):
        unpack_bundle(tmp_path / "image.tar", tmp_path / "out")
    assert not (tmp_path / "out").exists()
