"""Archives lay their files into the folder and nowhere else."""

import io
import tarfile
from pathlib import Path

import pytest

from edgepack.errors import DownloadError
from edgepack.fetch.unpack import unpack_download


def tar_with(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    info.mode = 0o644
    return info


def deb_with(path: Path, name: str, content: bytes) -> Path:
    def member(label: str, data: bytes) -> bytes:
        header = f"{label:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        return header + data + (b"\n" if len(data) % 2 else b"")

    parts = (("debian-binary", b"2.0\n"), ("control.tar", b""), (name, content))
    path.write_bytes(b"!<arch>\n" + b"".join(member(*part) for part in parts))
    return path


def test_the_top_folder_is_left_out_and_skipped_folders_too(tmp_path: Path) -> None:
    archive = tar_with(
        tmp_path / "a.tar.gz",
        (entry("lib-1.0/src/a.cc"), b"a"),
        (entry("lib-1.0/docs/b.md"), b"b"),
        (entry("other/c"), b"c"),
    )
    unpack_download(archive, tmp_path / "out", top="lib-1.0", skip=["docs"])
    assert [
        path.relative_to(tmp_path / "out").as_posix()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    ] == ["src/a.cc"]


def test_only_what_is_to_be_kept(tmp_path: Path) -> None:
    archive = tar_with(
        tmp_path / "a.tar.gz",
        (entry("inc/mp11.hpp"), b"1"),
        (entry("inc/mp11/list.hpp"), b"2"),
        (entry("inc/mp110"), b"3"),
    )
    unpack_download(archive, tmp_path / "out", keep=["inc/mp11", "inc/mp11.hpp"])
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.hpp")) == ["list.hpp", "mp11.hpp"]
    assert not (tmp_path / "out/inc/mp110").exists()


@pytest.mark.parametrize(
    "bad",
    [
        entry("../outside"),
        entry("/absolute/../../outside"),
        entry("link", tarfile.SYMTYPE, "../../outside"),
        entry("link", tarfile.SYMTYPE, "/etc/passwd"),
        entry("device", tarfile.CHRTYPE),
        entry("pipe", tarfile.FIFOTYPE),
    ],
    ids=["dotdot", "absolute", "link-out", "link-absolute", "device", "pipe"],
)
def test_nothing_gets_out_of_the_folder(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    archive = tar_with(tmp_path / "evil.tar.gz", (bad, b""))
    with pytest.raises(DownloadError, match=r"evil\.tar\.gz cannot be unpacked"):
        unpack_download(archive, tmp_path / "deep/out")
    assert not (tmp_path / "outside").exists() and not (tmp_path / "deep/outside").exists()


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00broken"])
def test_a_damaged_archive_is_an_error_for_people(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(DownloadError, match="cannot be unpacked"):
        unpack_download(archive, tmp_path / "out")


def test_a_truncated_archive_is_an_error_for_people(tmp_path: Path) -> None:
    archive = tar_with(tmp_path / "a.tar.gz", (entry("a"), bytes(range(256)) * 400))
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(DownloadError, match="cannot be unpacked"):
        unpack_download(archive, tmp_path / "out")


@pytest.mark.parametrize("compression", ["xz", "gz", "zst"])
def test_a_debian_package(tmp_path: Path, compression: str) -> None:
    plain = tar_with(tmp_path / "data.tar", (entry("./usr/include/a.h"), b"int a;\n"), mode="w").read_bytes()
    if compression == "xz":
        import lzma

        packed = lzma.compress(plain)
    elif compression == "gz":
        import gzip

        packed = gzip.compress(plain)
    else:
        import zstandard

        packed = zstandard.ZstdCompressor().compress(plain)
    deb = deb_with(tmp_path / "liba-dev.deb", f"data.tar.{compression}", packed)
    unpack_download(deb, tmp_path / "out")
    assert (tmp_path / "out/usr/include/a.h").read_text() == "int a;\n"


def test_what_only_calls_itself_a_debian_package(tmp_path: Path) -> None:
    deb = tmp_path / "a.deb"
    deb.write_bytes(b"PK\x03\x04")
    with pytest.raises(DownloadError, match="not a Debian package"):
        unpack_download(deb, tmp_path / "out")
