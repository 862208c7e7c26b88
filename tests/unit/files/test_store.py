"""The store: made once, checked, safe for two processes, and nothing half-made."""

import errno
import json
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from edgepack.errors import DiskFullError, OutputError
from edgepack.files import store as store_module
from edgepack.files.store import (
    ENTRY_FILE,
    Store,
    disk_errors,
    key_of,
    remove,
    require_space,
    written_beside,
)


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
    with pytest.raises(OutputError, match="cannot write to /proc/cache") as caught:
        Store(root=Path("/proc/cache")).cached("things", {}, lambda folder: None)
    assert "EDGEPACK_CACHE" in str(caught.value.hint)
    with pytest.raises(OutputError), disk_errors(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "folder", "link of /dev"])
def test_written_beside_replaces_nothing_but_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = tmp_path / "out.html"
    if kind == "folder":
        place.mkdir()
    elif kind == "link of /dev":
        monkeypatch.setattr(store_module, "DEVICES", tmp_path)
        (tmp_path / "redirected").touch()
        place.symlink_to("redirected")
    else:
        os.mkfifo(tmp_path / "pipe" if "link" in kind else place)
        if "link" in kind:
            place.symlink_to("pipe")
    before = place.lstat()
    with pytest.raises(OutputError, match="is not a file, and would be replaced"), written_beside(place):
        raise AssertionError
    assert place.lstat() == before and len([*tmp_path.iterdir()]) == 1 + ("link" in kind)


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
    assert path.stat().st_mode & 0o777 == 0o644
    with written_beside(path) as temporary:
        temporary.chmod(0o700)
    assert path.stat().st_mode & 0o777 == 0o755, "a program stays one"


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


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOSPC, DiskFullError), (errno.EACCES, OutputError), (errno.EXDEV, OutputError)],
)
def test_a_copied_tree_s_refusals_are_words_for_people(
    tmp_path: Path, number: int, kind: type[OutputError]
) -> None:
    one = OSError(number, os.strerror(number))
    for raised in (one, shutil.Error([("a", "b", str(one)), ("c", "d", str(one))])):
        with pytest.raises(kind) as caught, disk_errors(tmp_path):
            raise raised
        assert caught.value.hint
    with pytest.raises(shutil.Error), disk_errors(tmp_path):
        raise shutil.Error([("a", "b", "something else")])


def _fill(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin/tool").write_text("#!/bin/sh\n")
    (folder / "bin/tool").chmod(0o755)
    (folder / "empty").touch()
    (folder / "link").symlink_to("bin/tool")
    (folder / "folder").symlink_to("bin")


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _in_the_place_of(file: Path, put: Callable[[Path], object]) -> None:
    remove(file)
    put(file)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a file cut off": lambda entry: os.truncate(entry / "bin/tool", 3),
    "a bit flipped": lambda entry: _flip(entry / "bin/tool"),
    "a file more": lambda entry: (entry / "bin/more").touch(),
    "a file that is hidden": lambda entry: (entry / ".more").touch(),
    "a file less": lambda entry: (entry / "empty").unlink(),
    "a program that is none": lambda entry: (entry / "bin/tool").chmod(0o644),
    "a link in a file's place": lambda entry: _in_the_place_of(
        entry / "empty", lambda file: file.symlink_to("/dev/null")
    ),
    "a link elsewhere": lambda entry: _in_the_place_of(
        entry / "link", lambda file: file.symlink_to("/bin/sh")
    ),
    "a link's file in its place": lambda entry: _in_the_place_of(
        entry / "link", lambda file: file.write_text("#!/bin/sh\n")
    ),
    "a link to another folder": lambda entry: _in_the_place_of(
        entry / "folder", lambda file: file.symlink_to("/")
    ),
    "a folder in a file's place": lambda entry: _in_the_place_of(entry / "bin/tool", Path.mkdir),
    "a pipe in a file's place": lambda entry: _in_the_place_of(entry / "empty", os.mkfifo),
    "a pipe in the listing's place": lambda entry: _in_the_place_of(entry / ENTRY_FILE, os.mkfifo),
    "a folder in the listing's place": lambda entry: _in_the_place_of(entry / ENTRY_FILE, Path.mkdir),
    "no listing": lambda entry: (entry / ENTRY_FILE).unlink(),
    "an empty listing": lambda entry: (entry / ENTRY_FILE).write_text(""),
    "a listing of nothing": lambda entry: (entry / ENTRY_FILE).write_text("{}"),
    "a list": lambda entry: (entry / ENTRY_FILE).write_text('["bin/tool"]'),
    "a number": lambda entry: (entry / ENTRY_FILE).write_text("7"),
    "names without digests": lambda entry: (entry / ENTRY_FILE).write_text('{"bin/tool": 10, "empty": null}'),
    "brackets": lambda entry: (entry / ENTRY_FILE).write_text("[" * 200_000),
    "bytes": lambda entry: (entry / ENTRY_FILE).write_bytes(b"\xff\xfe{"),
    "a file in the entry's place": lambda entry: _in_the_place_of(entry, Path.touch),
    "a pipe in the entry's place": lambda entry: _in_the_place_of(entry, os.mkfifo),
    "a link to nothing in the entry's place": lambda entry: _in_the_place_of(
        entry, lambda place: place.symlink_to("/nowhere")
    ),
    "an empty folder in the entry's place": lambda entry: _in_the_place_of(entry, Path.mkdir),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_whatever_was_done_to_an_entry_it_is_made_again(damage: str, tmp_path: Path) -> None:
    store = Store(root=tmp_path)
    entry = store.cached("things", {"a": "1"}, _fill)
    before = (entry / ENTRY_FILE).read_text()
    store.cached("things", {"a": "1"}, lambda _: pytest.fail("it was sound"))
    DAMAGE[damage](entry)
    assert store.cached("things", {"a": "1"}, _fill) == entry
    assert (entry / ENTRY_FILE).read_text() == before
    assert sorted(path.name for path in entry.rglob("*")) == sorted(
        [ENTRY_FILE, "bin", "tool", "empty", "link", "folder"]
    )
    store.cached("things", {"a": "1"}, lambda _: pytest.fail("it was sound"))


def test_an_entry_in_the_place_of_another_is_not_given_out(tmp_path: Path) -> None:
    store = Store(root=tmp_path)

    def fill(text: str) -> Callable[[Path], None]:
        def make(folder: Path) -> None:
            (folder / "file").write_text(text)

        return make

    places = [("things", "1"), ("things", "2"), ("others", "1")]
    first, second, third = (store.cached(kind, {"a": a}, fill(f"{kind} {a}")) for kind, a in places)
    for other in (second, third):
        remove(first)
        shutil.copytree(other, first)
        again = store.cached("things", {"a": "1"}, fill("things 1"))
        assert (again / "file").read_text() == "things 1"


def test_what_an_entry_of_an_earlier_edgepack_lists_is_enough(tmp_path: Path) -> None:
    """It does not say whose it is; nobody downloads everything again for that."""
    store = Store(root=tmp_path)
    entry = store.cached("things", {"a": "1"}, lambda folder: (folder / "file").touch())
    listing = json.loads((entry / ENTRY_FILE).read_text())
    del listing[ENTRY_FILE]
    (entry / ENTRY_FILE).write_text(json.dumps(listing))
    store.cached("things", {"a": "1"}, lambda _: pytest.fail("it was sound"))
    (entry / "more").touch()
    store.cached("things", {"a": "1"}, lambda folder: (folder / "file").touch())
    assert not (entry / "more").exists()


def test_programs_may_write_beside_an_entry_s_files_where_its_maker_says_so(tmp_path: Path) -> None:
    store = Store(root=tmp_path)
    entry = store.cached("things", {"a": "1"}, _fill, grows=True)
    (entry / "kept").mkdir()
    (entry / "kept/table").touch()
    store.cached("things", {"a": "1"}, lambda _: pytest.fail("it was sound"), grows=True)
    _flip(entry / "bin/tool")
    store.cached("things", {"a": "1"}, _fill, grows=True)
    assert not (entry / "kept").exists()
    (entry / "bin/__pycache__").mkdir()
    (entry / "bin/__pycache__/tool.cpython-311.pyc").touch()
    store.cached("things", {"a": "1"}, lambda _: pytest.fail("Python's own files"))


@pytest.mark.parametrize("place", ["locks", "things", f"locks/things-{key_of({'a': '1'})}.lock"])
@pytest.mark.parametrize("put", [Path.touch, Path.mkdir, lambda path: path.symlink_to("loop")])
def test_what_is_in_the_way_of_the_cache_is_an_error_for_people(
    place: str, put: Callable[[Path], None], tmp_path: Path
) -> None:
    if place.endswith(".lock"):
        (tmp_path / "locks").mkdir()
    if place == "things" and put is Path.mkdir:
        pytest.skip("that is how it should be")
    put(tmp_path / place)
    with suppress(OutputError):
        Store(root=tmp_path).cached("things", {"a": "1"}, _fill)


def test_what_was_made_of_a_file_that_changed_meanwhile_is_not_kept(tmp_path: Path) -> None:
    """A training that saves its next state: the earlier one's key would have given it to everybody."""
    store, file = Store(root=tmp_path / "cache"), tmp_path / "weights"
    file.write_text("before")

    def make(folder: Path) -> None:
        (folder / "made").write_text(file.read_text())
        file.write_text("after")

    with pytest.raises(OutputError, match="weights was changed while it was read"):
        store.cached("things", {}, make, files={"weights": file})
    assert list((tmp_path / "cache/things").iterdir()) == []
    after = store.cached("things", {}, make, files={"weights": file})
    file.write_text("before")
    before = store.cached("things", {}, lambda folder: (folder / "made").touch(), files={"weights": file})
    assert before != after and (after / "made").read_text() == "after"


def test_a_link_in_the_place_of_a_lock_changes_nothing_elsewhere(tmp_path: Path) -> None:
    """Another user of the cache laid it, and had the modes of this user's files changed."""
    (tmp_path / "cache/locks").mkdir(parents=True)
    private = tmp_path / "private"
    private.touch(0o644)
    before = private.stat().st_mode
    (tmp_path / "cache/locks" / f"things-{key_of({'a': '1'})}.lock").symlink_to(private)
    with pytest.raises(OutputError, match=r"things-.*\.lock"):
        Store(root=tmp_path / "cache").cached("things", {"a": "1"}, _fill)
    assert private.stat().st_mode == before


@pytest.mark.parametrize("place", ["things", "things/KEY"])
def test_a_link_of_another_user_in_the_place_of_a_folder_is_not_followed(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders below it had been removed. One's own, to a larger disk, is."""
    (tmp_path / "private").mkdir()
    link = tmp_path / "cache" / place.replace("KEY", key_of({"a": "1"}))
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "private")
    store = Store(root=tmp_path / "cache")
    assert store.folder("things", {"a": "1"}).is_dir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    if os.getuid() == 0:
        os.chown(link, 54321, 54321, follow_symlinks=False)
    with pytest.raises(OutputError, match="is a link that another user has made"):
        store.folder("things", {"a": "1"})
    if place == "things":
        with pytest.raises(OutputError, match="is a link that another user has made"):
            store.cached("things", {"a": "2"}, _fill)


@pytest.mark.parametrize(
    ("folder", "lock"), [(0o755, 0o600), (0o2775, 0o660), (0o1777, 0o666), (0o700, 0o600)]
)
def test_who_may_write_into_the_cache_may_hold_its_locks(folder: int, lock: int, tmp_path: Path) -> None:
    """Or two users of one cache would be in the same entry at the same time. Who may only read it may not: they could hold it for good."""
    (tmp_path / "locks").mkdir()
    earlier = tmp_path / "locks" / f"things-{key_of({'a': '1'})}.lock"
    earlier.touch()
    earlier.chmod(0o664 & ~(0o022 & ~folder))
    (tmp_path / "locks").chmod(folder)
    Store(root=tmp_path).cached("things", {"a": "1"}, _fill)
    (held,) = (tmp_path / "locks").iterdir()
    assert held.stat().st_mode & 0o777 & ~lock == 0
    held.unlink()
    Store(root=tmp_path).cached("things", {"a": "1"}, _fill)
    assert held.stat().st_mode & 0o777 == lock
