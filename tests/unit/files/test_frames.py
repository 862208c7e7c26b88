"""Frames: made once for a content, the same whoever asks, in windows that tar unpacks unasked."""

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from tests.support.fleet import Shelf

from edgepack.errors import OutputError
from edgepack.files import frames
from edgepack.files.frames import frame
from edgepack.files.shared import SharedStore
from edgepack.files.store import Store

CONTENT = b"weights and biases " * 5_000 + random.Random(1).randbytes(50_000)


@pytest.fixture(params=[False, True], ids=["one core", "all cores"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param:
        monkeypatch.setattr(frames, "HUGE", 1000)
    return Store(root=tmp_path / "store")


def test_a_frame_is_of_its_content(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    told: list[int] = []
    made = frame(file, store=store, advance=told.append)
    assert sum(told) == len(CONTENT)
    assert zstandard.ZstdDecompressor().decompress(made.read_bytes()) == CONTENT
    about = zstandard.get_frame_parameters(made.read_bytes())
    assert about.has_checksum and about.window_size <= 1 << 27

    told.clear()
    assert frame(CONTENT, store=store, advance=told.append) == made
    assert sum(told) == len(CONTENT)


def test_a_frame_is_made_once_and_again_when_damaged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made = frame(CONTENT, store=store)
    before = made.read_bytes()
    made.write_bytes(b"x" + before[1:])
    assert frame(CONTENT, store=store).read_bytes() == before
    monkeypatch.delattr(zstandard, "ZstdCompressor")
    assert frame(CONTENT, store=store).read_bytes() == before


@pytest.mark.parametrize("by", ["compress", "_by_all_cores"])
def test_a_frame_of_a_file_that_was_replaced_meanwhile_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    file, store, real = tmp_path / "file", Store(root=tmp_path / "store"), getattr(frames, by)
    monkeypatch.setattr(frames, "HUGE", 1000 if by == "_by_all_cores" else frames.HUGE)
    file.write_bytes(CONTENT)

    def replaced(*given: Any) -> Any:
        file.write_bytes(b"x" + CONTENT[1:])
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(frames, by, replaced)
        with pytest.raises(OutputError, match="was changed while it was read"):
            frame(file, store=store)
    made = frame(CONTENT, store=store)
    assert zstandard.ZstdDecompressor().decompress(made.read_bytes()) == CONTENT


def test_another_zstd_makes_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made = frame(CONTENT, store=store)
    monkeypatch.setattr(zstandard, "ZSTD_VERSION", (9, 9, 9))
    assert frame(CONTENT, store=store) != made


def test_one_core_s_frame_is_what_a_server_sends_and_a_checksum(tmp_path: Path) -> None:
    made = frame(CONTENT, store=Store(root=tmp_path))
    sent = len(zstandard.ZstdCompressor(level=19).compress(CONTENT))
    assert made.stat().st_size == sent + frames.CHECKSUM


WORDS = b"".join(random.Random(4).choices([b"kernel", b"tensor", b"a", b"of", b"the"], k=100_000))


def weights(deviation: float) -> bytes:
    """Integers like those of quantized weights: not all as frequent, and never the same in a row."""
    values = np.random.default_rng(3).normal(0, deviation, 1 << 19).round()
    return np.clip(values, -127, 127).astype(np.int8).tobytes()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("content", "way"),
    [(weights(3), 0), (weights(1), 1), (WORDS, 3)],
    ids=["weights", "few levels", "words"],
)
def test_a_large_file_is_compressed_the_quickest_way_that_suits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, way: int
) -> None:
    monkeypatch.setattr(frames, "LARGE", 1 << 18)
    monkeypatch.setattr(frames, "PIECE", 1 << 16)
    made = frame(content, store=Store(root=tmp_path)).read_bytes()
    assert zstandard.ZstdDecompressor().decompress(made) == content
    assert len(made) < 1.003 * len(zstandard.compress(content, frames.LEVEL))
    ways = []
    for each in frames.WAYS:
        monkeypatch.setattr(frames, "WAYS", (each,))
        ways.append(frames.compress(content))
    assert [each == made for each in ways] == [number == way for number in range(4)]


def test_a_search_s_figure_is_the_frame_of_the_archive(tmp_path: Path) -> None:
    made = frame(CONTENT, store=Store(root=tmp_path))
    assert made.read_bytes() == frames.compress(CONTENT)


@pytest.mark.slow
def test_all_cores_make_the_same_whatever_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "HUGE", 1000)
    monkeypatch.setattr(frames, "JOB", 1 << 19)
    content = b"".join(random.Random(2).choices([b"kernel", b"tensor", b"a", b"of"], k=200_000))
    made = []
    for cores in (1, 2, 5):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        made.append(frame(content, store=Store(root=tmp_path / str(cores))).read_bytes())
    assert len(set(made)) == 1


def lying(store: Store, content: bytes, told: list[str]) -> Store:
    """A store on a shelf where somebody else listed another frame for ``CONTENT``, with its right digest."""
    shelf = Shelf()
    first = replace(store, shared=SharedStore(blobs=shelf, url="shelf://", warn=told.append, secret=b""))
    frame(CONTENT, store=first)
    (name,) = (each for each in shelf.files if each.startswith("entries/zstd-frame"))
    said = json.loads(shelf.files[name])
    digest = hashlib.sha256(content).hexdigest()
    shelf.files[f"sha256/{digest[:2]}/{digest}"] = content
    said["files"][0].update(sha256=digest, size=len(content))
    shelf.files[name] = json.dumps(said).encode()
    return replace(first, root=store.root.with_name("another machine"))


OTHER = CONTENT.replace(b"weights", b"WEIGHTS")
packed = zstandard.ZstdCompressor(write_checksum=True).compress


@pytest.mark.parametrize(
    "content",
    [
        packed(OTHER),
        packed(CONTENT[:-1]),
        packed(CONTENT) + packed(b"more"),
        packed(CONTENT)[:-10],
        packed(bytes(200_000_000)),
        b"",
        b"no frame",
    ],
    ids=["another", "less", "more", "cut off", "endless", "empty", "none"],
)
def test_a_store_that_gives_a_frame_of_something_else(store: Store, content: bytes) -> None:
    """An archive is what a device gets, and it is not unpacked again where it is made."""
    told: list[str] = []
    made = frame(CONTENT, store=lying(store, content, told))
    assert zstandard.ZstdDecompressor().decompress(made.read_bytes()) == CONTENT
    assert len(told) == 1 and "has a wrong entry, which is made again" in told[0]


def test_a_frame_of_the_store_is_taken_where_it_is_right(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    other = zstandard.ZstdCompressor(level=1).compress(CONTENT)
    assert frame(CONTENT, store=lying(store, other, told)).read_bytes() == other
    assert told == []
