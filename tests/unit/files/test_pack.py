"""The tar that is made of entries, whole and in pieces."""

import io
import random
import zipfile
from pathlib import Path

import pytest
import zstandard

from edgepack.files.pack import TarEntry, add_to_zip, tar_pieces, write_tarball


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


def test_what_stands_in_it_twice_is_hardly_sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a model in a library and in the bundle; the bytes are the same with any number of threads."""
    weights = random.Random(1).randbytes(20 << 20)
    entries = [TarEntry(name="library", source=b"code" + weights), TarEntry(name="model", source=weights)]

    def packed(processors: int) -> bytes:
        monkeypatch.setattr("os.cpu_count", lambda: processors)
        out = io.BytesIO()
        write_tarball(out, entries, level=1, window_log=27, repeats=True)
        return out.getvalue()

    assert len(weights) < len(packed(1)) < 1.01 * len(weights)
    assert packed(1) == packed(3)


@pytest.mark.parametrize("sample", [1 << 10, 1 << 20])
def test_a_member_of_a_zip_is_no_longer_than_zipfiles_own_and_weights_are_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: int
) -> None:
    monkeypatch.setattr("edgepack.files.pack.SAMPLE", sample)
    drawn = random.Random(1)
    contents = {
        "weights": bytes(int(drawn.gauss(128, 4)) & 255 for _ in range(1 << 17)),
        "text": b" ".join(b"%d word" % (number % 700) for number in range(9000)),
        "empty": b"",
    }
    made, usual = tmp_path / "made.zip", tmp_path / "usual.zip"
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
            add_to_zip(archive, zipfile.ZipInfo(name), tmp_path / name)
            add_to_zip(archive, zipfile.ZipInfo(f"{name} from memory"), content)
            add_to_zip(archive, zipfile.ZipInfo(f"{name} as it is"), content, level=0)
    with zipfile.ZipFile(usual, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    with zipfile.ZipFile(made) as archive, zipfile.ZipFile(usual) as others:
        assert archive.testzip() is None
        sizes = {each.filename: each.compress_size for each in archive.infolist()}
        usually = {each.filename: each.compress_size for each in others.infolist()}
        for name, content in contents.items():
            assert archive.read(name) == archive.read(f"{name} as it is") == content
            assert sizes[name] == sizes[f"{name} from memory"]
            assert sizes[f"{name} as it is"] == len(content)
            assert sizes[name] <= usually[name] * 1.01
    assert sizes["weights"] < usually["weights"] * 0.9
