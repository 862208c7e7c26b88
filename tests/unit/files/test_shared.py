"""Entries that many machines share: what comes back is what was put there, or nothing does and everybody is told."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.fleet import Shelf

from edgepack.files import shared as module
from edgepack.files.shared import ENOUGH, SharedStore
from edgepack.files.store import Store

KEY = "a" * 40


def shared(shelf: Shelf, told: list[str], *, secret: bytes = b"") -> SharedStore:
    return SharedStore(blobs=shelf, url="shelf://", warn=told.append, secret=secret)


def written(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "program").write_bytes(b"runs")
    (folder / "program").chmod(0o755)
    (folder / "sub" / "data").write_bytes(b"numbers")
    return folder


def test_an_entry_comes_back_with_its_modes(tmp_path: Path) -> None:
    told: list[str] = []
    store = shared(Shelf(), told)
    assert not store.has("kind", KEY)
    assert store.offer("kind", KEY, written(tmp_path / "one"))
    assert store.has("kind", KEY)
    back = tmp_path / "back"
    back.mkdir()
    assert store.fetch("kind", KEY, back)
    assert {path.relative_to(back).as_posix() for path in back.rglob("*")} == {"program", "sub", "sub/data"}
    assert (back / "sub/data").read_bytes() == b"numbers"
    assert (back / "program").stat().st_mode & 0o777 == 0o755
    assert not told


def test_equal_files_are_there_once(tmp_path: Path) -> None:
    shelf = Shelf()
    store = shared(shelf, [])
    store.offer("kind", KEY, written(tmp_path / "one"))
    store.offer("kind", "b" * 40, written(tmp_path / "two"))
    assert sum(name.startswith("sha256/") for name in shelf.files) == 2


def damaged(shelf: Shelf) -> None:
    name = next(name for name in shelf.files if name.startswith("sha256/"))
    shelf.files[name] = b"x" * len(shelf.files[name])


def emptied(shelf: Shelf) -> None:
    del shelf.files[next(name for name in shelf.files if name.startswith("sha256/"))]


def relisted(change: Callable[[dict[str, Any]], object]) -> Callable[[Shelf], None]:
    def lie(shelf: Shelf) -> None:
        name = f"entries/kind/{KEY}.json"
        said = json.loads(shelf.files[name])
        change(said)
        shelf.files[name] = json.dumps(said).encode()

    return lie


def half(shelf: Shelf) -> None:
    name = f"entries/kind/{KEY}.json"
    shelf.files[name] = shelf.files[name][:40]


@pytest.mark.parametrize(
    "lie",
    [
        damaged,
        emptied,
        half,
        relisted(lambda said: said.update(key="b" * 40)),
        relisted(
            lambda said: said.update(
                files=[{"path": "../up", "size": 1, "sha256": "0" * 64, "executable": False}]
            )
        ),
        relisted(
            lambda said: said.update(
                files=[{"path": "a", "size": 1, "sha256": "../../etc", "executable": False}]
            )
        ),
        relisted(lambda said: said.update(files=3)),
        relisted(lambda said: said["files"][0].update(path="a/" * 850 + "x")),
        relisted(lambda said: said["files"][0].update(size=-1)),
        relisted(lambda said: said["files"][0].update(size=20 << 30)),
        relisted(lambda said: said.update(files=said["files"] * 6000)),
        relisted(lambda said: said.pop("mac")),
    ],
)
def test_a_store_that_lies_is_noticed_and_gone_round(lie: Callable[[Shelf], None], tmp_path: Path) -> None:
    shelf, told = Shelf(), list[str]()
    store = shared(shelf, told)
    store.offer("kind", KEY, written(tmp_path / "one"))
    lie(shelf)
    back = tmp_path / "back"
    back.mkdir()
    assert not store.fetch("kind", KEY, back)
    assert list(back.iterdir()) == []
    assert len(told) == 1
    assert "damaged entry, which is made again" in told[0]
    assert list(tmp_path.glob("up")) == []
    # Made again, it is whole for everybody.
    assert store.offer("kind", KEY, tmp_path / "one")
    assert shared(shelf, told).fetch("kind", KEY, back)
    assert len(told) == 1


@dataclass
class SlowShelf(Shelf):
    """Each answer takes a minute and a half of a clock."""

    clock: float = 0.0

    def _answer(self) -> None:
        super()._answer()
        self.clock += 90


def test_a_store_that_takes_its_time_for_each_file_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list may have thousands of files."""
    shelf, told = SlowShelf(), list[str]()
    folder, back = written(tmp_path / "one"), tmp_path / "back"
    back.mkdir()
    monkeypatch.setattr("edgepack.files.shared.time.monotonic", lambda: shelf.clock)
    store = shared(shelf, told)
    assert store.offer("kind", KEY, folder)
    assert store.fetch("kind", KEY, back)
    for number in range(9):
        (folder / f"{number}").write_text(f"{number}")
    assert not store.offer("kind", "b" * 40, folder)
    assert "takes nothing and is done without: TimeoutError" in told[0]
    with monkeypatch.context() as quick:
        quick.setattr(module, "_LONGEST", 10_000)
        assert store.offer("kind", "b" * 40, folder)
    assert not store.fetch("kind", "b" * 40, back)
    assert "cannot be read and is done without: TimeoutError" in told[1]
    assert shelf.clock < 40 * 90


def test_folders_within_one_another_that_nothing_could_remove_are_not_made(tmp_path: Path) -> None:
    shelf, told = Shelf(), list[str]()
    store = shared(shelf, told)
    store.offer("kind", KEY, written(tmp_path / "one"))

    def deeper(said: dict[str, Any]) -> None:
        said["files"][0]["path"] = "a/" * 850 + "x"
        said["files"][1]["path"] = "a/" * 1700 + "x"

    relisted(deeper)(shelf)
    back = tmp_path / "back"
    back.mkdir()
    assert not store.fetch("kind", KEY, back)
    assert "lies too deep" in told[0] and list(back.iterdir()) == []


def test_with_a_secret_only_those_who_know_it_are_believed(tmp_path: Path) -> None:
    shelf, told = Shelf(), list[str]()
    shared(shelf, told, secret=b"ours").offer("kind", KEY, written(tmp_path / "one"))
    back = tmp_path / "back"
    back.mkdir()
    assert not shared(shelf, told, secret=b"another").fetch("kind", KEY, back)
    assert "does not know EDGEPACK_STORE_SECRET" in told[0]
    assert shared(shelf, told, secret=b"ours").fetch("kind", KEY, back)


def test_a_store_that_cannot_be_reached_is_warned_of_once_and_left_alone(tmp_path: Path) -> None:
    shelf, told = Shelf(down=True), list[str]()
    store = shared(shelf, told)
    for _ in range(ENOUGH + 2):
        assert not store.fetch("kind", KEY, tmp_path)
        assert not store.has("kind", KEY)
    assert shelf.asked == ENOUGH
    assert len(told) == 1
    assert "cannot be read and is done without: TimeoutError: nobody is there" in told[0]
    assert not store.offer("kind", KEY, written(tmp_path / "one"))
    assert "takes nothing" in told[1]


def test_entries_of_other_kinds_and_links_stay_here(tmp_path: Path) -> None:
    shelf = Shelf()
    store = SharedStore(blobs=shelf, url="shelf://", warn=print, kinds=("kind",))
    assert not store.offer("another", KEY, written(tmp_path / "one"))
    (tmp_path / "one" / "link").symlink_to("program")
    assert not store.offer("kind", KEY, tmp_path / "one")
    assert shelf.files == {}


def test_what_one_cache_made_another_takes(tmp_path: Path) -> None:
    shelf, made = Shelf(), list[str]()

    def make(folder: Path) -> None:
        made.append("made")
        (folder / "file").write_text("content")

    for name in ("one", "two"):
        store = Store(root=tmp_path / name, shared=shared(shelf, made))
        entry = store.cached("kind", {"of": "this"}, make)
        assert (entry / "file").read_text() == "content"
        assert store.cached("kind", {"of": "this"}, make) == entry
    assert made == ["made"]


@dataclass
class Measured(Shelf):
    """A shelf that says how large its files are, and on which one is far larger."""

    large: str = ""

    def size(self, name: str) -> int | None:
        if name not in self.files:
            return None
        return 1 << 50 if self.large and name.startswith(self.large) else len(self.files[name])

    def get(self, name: str, destination: Path) -> bool:
        assert not (self.large and name.startswith(self.large)), "the disk would be full of it"
        return super().get(name, destination)


@pytest.mark.parametrize("large", ["entries/", "sha256/"])
def test_what_is_larger_than_it_may_be_is_not_fetched(tmp_path: Path, large: str) -> None:
    shelf, told = Measured(), list[str]()
    assert shared(shelf, told).offer("kind", KEY, written(tmp_path / "one"))
    back = tmp_path / "back"
    back.mkdir()
    assert shared(shelf, told).fetch("kind", KEY, back)
    shelf.large = large
    other = tmp_path / "other"
    other.mkdir()
    assert not shared(shelf, told).fetch("kind", KEY, other)
    assert "has 1,125,899,906,842,624 bytes" in told[0] and list(other.iterdir()) == []
