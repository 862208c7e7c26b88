"""Frames: made once for a content, the same whoever asks, in windows that tar unpacks unasked."""

import random
from pathlib import Path

import numpy as np
import pytest
import zstandard

from edgepack.files import frames
from edgepack.files.frames import frame
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


def test_another_zstd_makes_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made = frame(CONTENT, store=store)
    monkeypatch.setattr(zstandard, "ZSTD_VERSION", (9, 9, 9))
    assert frame(CONTENT, store=store) != made


def test_one_core_s_frame_is_what_a_server_sends_and_a_checksum(tmp_path: Path) -> None:
    made = frame(CONTENT, store=Store(root=tmp_path))
    sent = len(zstandard.ZstdCompressor(level=19).compress(CONTENT))
    assert made.stat().st_size == sent + frames.CHECKSUM


WEIGHTS = (
    np.clip(np.random.default_rng(3).normal(0, 1.5, 3 << 20).round(), -127, 127).astype(np.int8).tobytes()
)
"""Quantized: letters that are not alike in number, and no words."""
WORDS = b"".join(random.Random(4).choices([b"kernel", b"tensor", b"a", b"of", b"the"], k=400_000))


def test_large_weights_are_left_to_the_entropy_coder_and_nothing_else_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "LARGE", 1 << 20)
    monkeypatch.setattr(frames, "PIECE", 1 << 18)
    at_level = {content: len(zstandard.compress(content, frames.LEVEL)) for content in (WEIGHTS, WORDS)}
    assert frame(WEIGHTS, store=store).stat().st_size < at_level[WEIGHTS] * 0.9995
    assert (
        abs(frame(WORDS, store=store).stat().st_size - frames.CHECKSUM - at_level[WORDS])
        < 0.01 * at_level[WORDS]
    )
    assert zstandard.ZstdDecompressor().decompress(frame(WEIGHTS, store=store).read_bytes()) == WEIGHTS


def test_a_search_s_figure_is_the_frame_of_the_archive(tmp_path: Path) -> None:
    made = frame(CONTENT, store=Store(root=tmp_path))
    assert made.read_bytes() == frames.compress(CONTENT)


def test_all_cores_make_the_same_whatever_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "HUGE", 1000)
    monkeypatch.setattr(frames, "JOB", 1 << 19)
    content = b"".join(random.Random(2).choices([b"kernel", b"tensor", b"a", b"of"], k=500_000))
    made = []
    for cores in (1, 2, 5):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        made.append(frame(content, store=Store(root=tmp_path / str(cores))).read_bytes())
    assert len(set(made)) == 1
