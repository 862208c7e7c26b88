"""The tar that is made of entries, whole and in pieces."""

import io
from pathlib import Path

import pytest
import zstandard

from edgepack.files.pack import TarEntry, tar_pieces, write_tarball


@pytest.fixture
def entries(tmp_path: Path) -> list[TarEntry]:
    contents = {"a": b"", "b": b"small", "c": b"large" * 200, "d" * 120: b"x" * 512, "e": b"large" * 301}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "link").symlink_to("b")
    (tmp_path / "folder").mkdir()
    names = ("folder", *contents, "link")
    found = [TarEntry(name=f"top/{name}", source=tmp_path / name, executable=name == "c") for name in names]
    return [TarEntry(name="index.json", source=b"{}" * 700), *found]


@pytest.mark.parametrize("large", [1, 600, 10_000])
def test_pieces_are_the_tar(entries: list[TarEntry], large: int) -> None:
    out = io.BytesIO()
    write_tarball(out, entries, level=1, window_log=20)
    whole = zstandard.ZstdDecompressor().stream_reader(out.getvalue()).read()
    parts = list(tar_pieces(entries, large=large))
    assert b"".join(part if isinstance(part, bytes) else part.read_bytes() for part in parts) == whole
    files = [part.name for part in parts if isinstance(part, Path)]
    assert files == {1: ["b", "c", "d" * 120, "e"], 600: ["c", "e"], 10_000: []}[large]
