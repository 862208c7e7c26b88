"""A folder appears whole or not at all, whatever happens to the process that makes it."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from edgepack.building.outcome import withdrawn
from edgepack.bundles import place
from edgepack.bundles.place import held_place, placed_beside, placed_folder
from edgepack.errors import OutputError
from edgepack.files.store import written_beside

from .conftest import names_in

pytestmark = pytest.mark.tools("python")

BUILD = """
import sys, time
from pathlib import Path
from edgepack.bundles.place import placed_folder
with placed_folder(Path(sys.argv[1]), force=True) as folder:
    (folder / "half").write_text("half made")
    print("working", flush=True)
    time.sleep(600)
"""


@contextmanager
def unfinished_build(destination: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that is in the middle of making the folder; killed when the block ends."""
    with subprocess.Popen([sys.executable, "-c", BUILD, str(destination)], stdout=subprocess.PIPE) as build:
        assert build.stdout is not None
        assert build.stdout.readline() == b"working\n"
        try:
            yield build
        finally:
            build.kill()


def manifest(content: str) -> str:
    """Text of one that passes for a bundle's."""
    return json.dumps({"schema": 1, "target": content, "files": []})


def make(destination: Path, content: str) -> None:
    """Make a folder that passes for a bundle."""
    with placed_folder(destination, force=True) as folder:
        (folder / "manifest.json").write_text(manifest(content))


@pytest.mark.parametrize(
    ("mask", "folder", "file"), [(0o077, 0o700, 0o600), (0o022, 0o755, 0o644), (0, 0o755, 0o644)]
)
def test_what_the_umask_keeps_from_others_is_kept_from_them(
    mask: int, folder: int, file: int, tmp_path: Path
) -> None:
    before = os.umask(mask)
    try:
        make(tmp_path / "bundle", "one")
        with written_beside(tmp_path / "vectors.npy") as written:
            written.write_bytes(b"1")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "bundle").stat().st_mode & 0o777 == folder
    assert (tmp_path / "vectors.npy").stat().st_mode & 0o777 == file


def test_a_killed_build_leaves_nothing_at_its_place_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    with unfinished_build(tmp_path / "bundle"):
        pass
    assert not (tmp_path / "bundle").exists()
    assert len(names_in(tmp_path)) == 1
    make(tmp_path / "bundle", "new")
    assert names_in(tmp_path) == ["bundle"]


def test_a_build_that_still_runs_is_not_cleaned_up(tmp_path: Path) -> None:
    with unfinished_build(tmp_path / "bundle"):
        make(tmp_path / "bundle", "new")
        (other,) = (path for path in tmp_path.iterdir() if path.name != "bundle")
        assert (other / "half").read_text() == "half made"


def test_a_build_that_was_killed_between_the_two_renames_gives_the_old_bundle_back(tmp_path: Path) -> None:
    make(tmp_path / "bundle", "old")
    (tmp_path / "bundle").rename(tmp_path / ".bundle-abc_1234.replaced")
    with pytest.raises(RuntimeError), placed_folder(tmp_path / "bundle", force=True):
        raise RuntimeError
    assert (tmp_path / "bundle" / "manifest.json").read_text() == manifest("old")
    assert names_in(tmp_path) == ["bundle"]


def test_two_builds_that_finish_one_after_the_other_do_not_mix(tmp_path: Path) -> None:
    with placed_folder(tmp_path / "bundle", force=False) as first:
        with placed_folder(tmp_path / "bundle", force=False) as second:
            (first / "manifest.json").write_text(manifest("first"))
            (second / "manifest.json").write_text(manifest("second"))
        with pytest.raises(OutputError, match="already exists"):  # noqa: SIM117 - the first block ends below
            with placed_folder(tmp_path / "bundle", force=False):
                pass
        assert (tmp_path / "bundle" / "manifest.json").read_text() == manifest("second")
        (tmp_path / "bundle" / "manifest.json").unlink()
        (tmp_path / "bundle").rmdir()
    assert (tmp_path / "bundle" / "manifest.json").read_text() == manifest("first")
    assert names_in(tmp_path) == ["bundle"]


def test_a_place_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    """Three in turn, of whom each but the first waits for what the one before it held and removed."""
    order: list[str] = []
    waits, inside = threading.Event(), threading.Event()

    def second() -> None:
        with held_place(tmp_path / "dist/bundle", waiting=waits.set):
            order.append("second")
            inside.set()

    with held_place(tmp_path / "dist/bundle", waiting=lambda: order.append("waits for nobody")):
        other = threading.Thread(target=second)
        other.start()
        assert waits.wait(60)
        with held_place(tmp_path / "dist/another", waiting=lambda: order.append("waits for nobody")):
            order.append("first")
        assert not inside.is_set()
    other.join(60)
    assert order == ["first", "second"]
    assert names_in(tmp_path / "dist") == []


def test_what_has_a_manifest_of_another_kind_is_not_replaced(tmp_path: Path) -> None:
    """An extension of a browser, an app of the web."""
    (tmp_path / "work").mkdir()
    for said in ('{"manifest_version": 3, "name": "mine"}', "// mine\n{}", "[]"):
        (tmp_path / "work/manifest.json").write_text(said)
        with (
            pytest.raises(OutputError, match="is not a bundle"),
            placed_folder(tmp_path / "work", force=True),
        ):
            pass
        assert (tmp_path / "work/manifest.json").read_text() == said


@pytest.mark.timeout(20)
def test_a_manifest_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Under ``--force`` it was, and a clone's link to /dev/zero took all memory."""
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work/manifest.json")
    with (
        pytest.raises(OutputError, match="is not a bundle"),
        placed_folder(tmp_path / "work", force=True),
    ):
        pass


@pytest.mark.parametrize(
    "mine", ["NOTES.md", "model/mine.txt", "model/model.bin/index", "notes -> /etc/passwd"]
)
def test_a_bundle_with_which_somebody_keeps_files_of_their_own_is_not_replaced(
    mine: str, tmp_path: Path
) -> None:
    """As `edgepack build` does with one that is not as it was; what is damaged or missing of it, and empty folders, are no reason to keep it."""
    bundle = tmp_path / "bundle"
    (bundle / "model/empty").mkdir(parents=True)
    listed = [{"path": "model/model.bin"}, {"path": "gone"}, {"path": 1}]
    (bundle / "manifest.json").write_text(json.dumps({"schema": 1, "target": "old", "files": listed}))
    (bundle / "signature.sigstore.json").write_text("damaged")
    for left in ("model/__pycache__/edgepack_bundle.cpython-311.pyc", ".DS_Store", "model/Thumbs.db"):
        (bundle / left).parent.mkdir(exist_ok=True)
        (bundle / left).write_text("left by Python, or a desktop")
    name, _, link = mine.partition(" -> ")
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).symlink_to(link) if link else (bundle / name).write_text("mine")
    with pytest.raises(OutputError, match=f"holds {name}, which it was not made with, so it is not replaced"):
        make(bundle, "new")
    (bundle / name).unlink()
    (bundle / "model/model.bin").exists() or (bundle / "model/model.bin").write_text("damaged")
    make(bundle, "new")
    assert names_in(bundle) == ["manifest.json"]


def test_a_file_that_is_put_into_a_bundle_while_another_is_made_in_its_place_is_kept(tmp_path: Path) -> None:
    make(tmp_path / "bundle", "old")
    with pytest.raises(OutputError, match=r"holds NOTES\.md"), placed_folder(tmp_path / "bundle", force=True):
        (tmp_path / "bundle/NOTES.md").write_text("mine")
    assert names_in(tmp_path / "bundle") == ["NOTES.md", "manifest.json"]


def test_a_build_that_comes_second_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="already exists"):  # noqa: SIM117 - raised when the inner block ends
        with placed_folder(tmp_path / "bundle", force=False):
            make(tmp_path / "bundle", "the other's")
    assert (tmp_path / "bundle" / "manifest.json").read_text() == manifest("the other's")
    assert names_in(tmp_path) == ["bundle"]


def test_an_interrupt_while_the_place_is_taken_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    calls: list[int] = []

    def interrupted(descriptor: int, operation: int) -> None:
        calls.append(operation)
        if len(calls) == 1:
            raise KeyboardInterrupt
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", interrupted)
    with pytest.raises(KeyboardInterrupt), held_place(tmp_path / "dist/bundle", waiting=lambda: None):
        raise AssertionError("it is not held")
    assert list((tmp_path / "dist").iterdir()) == []


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("ending", ["replaced", "unfinished"])
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("a", "a-min"),
        ("a", "a-abcd1234"),
        ("a", "a.b"),
        ("a*", "ab"),
        ("a[b]", "ab"),
        ("a.b", "a-b"),
        ("a?", "a-"),
    ],
)
def test_what_is_left_of_a_bundle_whose_name_begins_alike_is_not_touched(
    name: str, other: str, ending: str, *, there: bool, tmp_path: Path
) -> None:
    """After a kill between two renames, it may be that bundle's only copy."""
    left = tmp_path / f".{other}-abcd1234.{ending}"
    left.mkdir()
    (left / "manifest.json").write_text(manifest("the only copy"))
    if there:
        make(tmp_path / name, "old")
    make(tmp_path / name, "new")
    assert names_in(tmp_path) == sorted([left.name, name])
    assert (left / "manifest.json").read_text() == manifest("the only copy")
    if ending == "replaced":
        with pytest.raises(RuntimeError), placed_folder(tmp_path / other, force=True):
            raise RuntimeError
        assert names_in(tmp_path) == sorted([name, other])
        assert (tmp_path / other / "manifest.json").read_text() == manifest("the only copy")


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["in one step", "in steps"])
def test_a_bundle_that_is_replaced_is_whole_whatever_its_build_is_killed_at(how: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.support.killed", how, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["first"]) > 15
    seldom_none = {None} if how == "in steps" else set()
    assert set(found["first"]) == {"old", "new"} | seldom_none
    assert set(found["then"]) == {"old", "new"}
    assert set(map(tuple, found["left"])) == {("a",)}


def test_where_folders_cannot_be_exchanged_one_that_is_being_replaced_is_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another build of the same place looks around between the renames."""
    looked: list[list[str]] = []
    rename = Path.rename

    def renamed(path: Path, target: Path) -> Path:
        if path.name.endswith(".unfinished"):
            place.remove_leftovers(tmp_path / "a")
            looked.append(names_in(tmp_path))
        return rename(path, target)

    make(tmp_path / "a", "old")
    monkeypatch.setattr(place, "exchange", lambda one, other: False)
    monkeypatch.setattr(Path, "rename", renamed)
    make(tmp_path / "a", "new")
    ((old, new),) = looked
    assert (old.partition(".replaced")[0], ".unfinished") == (new.partition(".unfinished")[0], new[-11:])
    assert names_in(tmp_path) == ["a"]
    assert (tmp_path / "a/manifest.json").read_text() == manifest("new")


def test_a_work_folder_that_another_took_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its locking."""
    lock = place._lock
    seen: list[Path] = []

    def locked(folder: Path) -> int:
        seen.append(folder)
        if len(seen) == 1:
            folder.rmdir()
        return lock(folder)

    monkeypatch.setattr(place, "_lock", locked)
    make(tmp_path / "a", "new")
    assert len(seen) == 2
    assert (tmp_path / "a/manifest.json").read_text() == manifest("new")


def test_something_else_that_is_named_as_a_leftover_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".a-abcd1234.unfinished").write_text("a file")
    (tmp_path / ".a-abcd1235.replaced").symlink_to("/etc")
    os.mkfifo(tmp_path / ".a-abcd1236.unfinished")
    make(tmp_path / "a", "new")
    assert len(names_in(tmp_path)) == 4


def test_what_a_killed_build_left_of_a_file_beside_a_bundle_is_removed(tmp_path: Path) -> None:
    """An archive that was half written, and half packed; those of other bundles stay."""
    mine = (".a.tar.zst-abcd1234", "..a.tar.zst-abcd1234-efgh5678")
    others = (".a-min.tar.zst-abcd1234", ".a.tar.zst.sig-abcd1234", "..b.tar.zst-abcd1234-efgh5678")
    for name in (*mine, *others):
        (tmp_path / name).write_text("half")
    with placed_beside(tmp_path / "a.tar.zst") as temporary:
        temporary.write_text("whole")
    assert names_in(tmp_path) == sorted([*others, "a.tar.zst"])


@pytest.mark.parametrize("fails", ["exchange", "remove", ""])
def test_what_lies_beside_a_bundle_is_that_bundle_s_whatever_replacing_it_fails_at(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old archive was gone and the old folder stayed, where that was a mount point."""
    make(tmp_path / "a", "old")
    archive, signature = tmp_path / "a.tar.zst", tmp_path / "a.tar.zst.sigstore.json"
    for file in (archive, signature):
        file.write_text("old")

    def fail(*said: object, **how: object) -> None:
        monkeypatch.undo()
        raise OSError(errno.EBUSY, "Device or resource busy") if fails == "exchange" else KeyboardInterrupt

    if fails:
        monkeypatch.setattr(*{"exchange": (place, "exchange"), "remove": (shutil, "rmtree")}[fails], fail)
    failed = {
        "exchange": pytest.raises(OutputError, match="busy"),
        "remove": pytest.raises(KeyboardInterrupt),
    }
    with (
        failed.get(fails, nullcontext()),
        ExitStack() as beside,
        placed_folder(tmp_path / "a", force=True) as folder,
    ):
        (folder / "manifest.json").write_text(manifest("new"))
        beside.enter_context(placed_beside(archive)).write_text("new")
        beside.enter_context(withdrawn([archive, tmp_path / "a.report.json"], tmp_path / "a"))
        assert names_in(tmp_path) != ["a", archive.name, signature.name]
    old = fails == "exchange"
    assert (tmp_path / "a/manifest.json").read_text() == manifest("old" if old else "new")
    beside_it = {"exchange": [archive.name, signature.name], "remove": [], "": [archive.name]}[fails]
    assert names_in(tmp_path) == ["a", *beside_it]
    assert {(tmp_path / name).read_text() for name in beside_it} <= {"old" if old else "new"}


def test_an_interrupt_before_the_folder_is_locked_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: Path) -> int:
        assert folder.is_dir()
        raise KeyboardInterrupt

    monkeypatch.setattr(place, "_lock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "bundle", "new")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), OSError(9, "Bad file descriptor")])
@pytest.mark.parametrize("first", [False, True])
def test_an_interrupt_while_the_folder_is_removed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: BaseException, first: bool
) -> None:
    """The first one, or one after that which ended the build."""
    make(tmp_path / "bundle", "old")
    rmtree, calls = shutil.rmtree, 0

    def interrupted(folder: Path, ignore_errors: bool = False) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise interrupt
        rmtree(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        placed_folder(tmp_path / "bundle", force=True) as folder,
    ):
        (folder / "manifest.json").write_text(manifest("new"))
        if not first:
            raise KeyboardInterrupt
    assert names_in(tmp_path) == ["bundle"]
    assert (tmp_path / "bundle" / "manifest.json").read_text() == manifest("new" if first else "old")


def test_a_lock_that_leads_elsewhere_makes_no_file_there(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/.bundle.lock").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(OutputError, match="cannot write to"),
        held_place(tmp_path / "dist/bundle", waiting=lambda: None),
    ):
        pass
    assert not (tmp_path / "elsewhere").exists()
