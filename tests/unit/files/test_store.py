"""The store: made once, checked, safe for two processes, and nothing half-made."""

import errno
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import pytest

from edgepack.errors import DiskFullError, OutputError
from edgepack.files.store import Store, disk_errors, key_of, require_space, written_beside


def test_made_once_and_again_when_damaged(tmp_path: Path) -> None:
    store = Store(root=tmp_path)
    made: list[str] = []

    def make(folder: Path) -> None:
        made.append("x")
        (folder / "sub").mkdir()
        (folder / "sub" / "file").write_text("content")

    entry = store.cached("things", {"a": "1"}, make)
    assert store.cached("things", {"a": "1"}, make) == entry
    assert len(made) == 1

    damaged = entry / "sub" / "file"
    before = damaged.stat()
    damaged.write_text("kontent")
    os.utime(damaged, ns=(before.st_atime_ns, before.st_mtime_ns))  # as bad memory would: no other trace
    assert (store.cached("things", {"a": "1"}, make) / "sub" / "file").read_text() == "content"
    assert len(made) == 2

    damaged.unlink()
    store.cached("things", {"a": "1"}, make)
    assert len(made) == 3


def test_other_inputs_are_another_entry(tmp_path: Path) -> None:
    store = Store(root=tmp_path)
    entries = {
        store.cached("things", inputs, lambda folder: (folder / "f").touch())
        for inputs in ({"a": "1"}, {"a": "2"}, {"b": "1"})
    }
    assert len(entries) == 3
    assert key_of({"a": "1", "b": "2"}) == key_of({"b": "2", "a": "1"})


def test_a_failed_make_leaves_nothing(tmp_path: Path) -> None:
    store = Store(root=tmp_path)

    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        store.cached("things", {"a": "1"}, fail)
    assert list((tmp_path / "things").iterdir()) == []


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    store = Store(root=tmp_path)
    left = tmp_path / "things" / f".{key_of({'a': '1'})}-killed"
    left.mkdir(parents=True)
    entry = store.cached("things", {"a": "1"}, lambda folder: (folder / "f").touch())
    assert list((tmp_path / "things").iterdir()) == [entry]


def _slow(root: Path) -> None:
    def make(folder: Path) -> None:
        with (root / "count").open("a") as count:
            count.write("x")
        time.sleep(0.3)
        (folder / "file").write_text("done")

    entry = Store(root=root / "store").cached("things", {"a": "1"}, make)
    assert (entry / "file").read_text() == "done"


def test_two_processes_make_it_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_slow, args=(tmp_path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "count").read_text() == "x"


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DiskFullError) as caught:
        Store(root=tmp_path).cached("things", {"a": "1"}, fill)
    assert caught.value.hint is not None
    assert "EDGEPACK_CACHE" in caught.value.hint
    assert list((tmp_path / "things").iterdir()) == []


def test_space_that_a_tool_did_not_find_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_space(tmp_path / "result", 3 << 20)
    assert list(tmp_path.iterdir()) == []

    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgepack.files.store.tempfile.TemporaryFile", full)
    with pytest.raises(DiskFullError):
        require_space(tmp_path / "result", 1)


def test_an_unwritable_place_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write to"), written_beside(tmp_path / "file" / "result"):
        pass
    with pytest.raises(OutputError, match="cannot write to"):
        Store(root=tmp_path / "file" / "store").folder("things", {})
    with pytest.raises(OutputError), disk_errors(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_written_beside_replaces_only_when_whole(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_text("old")
    with pytest.raises(RuntimeError), written_beside(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]
    with written_beside(path) as temporary:
        temporary.write_text("new")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["new"]


def _ask_as_nobody(root: Path, answer: "multiprocessing.Queue[str]") -> None:
    if os.geteuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    store = Store(root=root)

    def make(folder: Path) -> None:
        raise AssertionError("there is nothing to make")

    try:
        answer.put((store.cached("things", {"a": "1"}, make) / "file").read_text())
        store.cached("things", {"a": "2"}, lambda folder: None)
    except Exception as error:
        answer.put(f"{type(error).__name__}: {error}")


def test_a_cache_that_may_only_be_read_is_read() -> None:
    """A shared cache belongs to somebody else."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)

        def fill(made: Path) -> None:
            (made / "file").write_text("whole")

        Store(root=root).cached("things", {"a": "1"}, fill)
        for path in (root, *root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        answer: multiprocessing.Queue[str] = multiprocessing.Queue()
        process = multiprocessing.get_context("fork").Process(target=_ask_as_nobody, args=(root, answer))
        process.start()
        assert answer.get(timeout=30) == "whole"
        assert answer.get(timeout=30).startswith("OutputError: cannot write to ")
        process.join()
        for path in (root, *root.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize(
    ("full", "words"), [("output", "--output"), ("cache", "EDGEPACK_CACHE"), ("tmp", "TMPDIR")]
)
def test_a_full_disk_is_blamed_on_what_lies_there(
    full: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"output": Path("/dev/shm/dist"), "cache": tmp_path / "cache", "tmp": tmp_path / "tmp"}
    monkeypatch.setattr("edgepack.files.store.tempfile.gettempdir", lambda: str(places["tmp"]))
    monkeypatch.setattr("edgepack.files.store.free_bytes", lambda path: 0 if path == places[full] else 9**9)
    with pytest.raises(DiskFullError) as caught, disk_errors(places["output"], cache=places["cache"]):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(places[full]) in caught.value.message
    assert [each for each in ("--output", "EDGEPACK_CACHE", "TMPDIR") if each in str(caught.value.hint)] == [
        words
    ]
