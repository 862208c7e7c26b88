"""Kernel archives as wheels: installed, they are found; wrong ones are said to be wrong and done without."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.small_archive import build as build_small
from tests.support.small_archive import small_archive

from edgepack.console import Story
from edgepack.files.store import Store
from edgepack.foundry.compile.exchange import Exchanged
from edgepack.foundry.compile.export import export_archive
from edgepack.foundry.compile.installed import FILE, take_installed
from edgepack.foundry.compile.wheel import write_wheel
from edgepack.foundry.releases.registry import RELEASE
from edgepack.plugins.context import HostContext, host_context

pytestmark = pytest.mark.tools("gcc", "python")


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def here(tmp_path: Path) -> Iterator[HostContext]:
    with host_context(offline=True, story=Story(quiet=True), store=Store(root=tmp_path / "here")) as context:
        yield context


@pytest.fixture
def there(tmp_path: Path, told: list[str]) -> Iterator[HostContext]:
    """A machine without anything compiled."""
    story = Story(quiet=True)
    story.warnings = told
    with host_context(offline=True, story=story, store=Store(root=tmp_path / "there")) as context:
        yield context


@pytest.fixture
def wheel(here: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Exchanged]:
    """Of an archive whose sources are those that are pinned, as far as this release knows."""
    monkeypatch.setattr("edgepack.foundry.compile.exchange._require_ours", lambda *_: None)
    archive = small_archive(here.store)
    archive.compile(archive.units, context=here)
    exported = tmp_path / FILE
    made = export_archive(archive, exported, features=(), with_sources=False, context=here)
    return write_wheel(exported, made, tmp_path / "wheels"), made


def installed(wheel: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.syspath_prepend(site)
    return next(site.glob(f"*/{FILE}"))


def objects_in(context: HostContext, key: str) -> int:
    return len(list((context.store.root / "kernel-archive" / key).glob("objects/**/*.o")))


def take(context: HostContext, key: str) -> Path:
    folder = context.store.root / "kernel-archive" / key
    folder.mkdir(parents=True, exist_ok=True)
    take_installed(folder, RELEASE, context=context)
    return folder


def test_it_is_found_by_its_key_and_taken_once(
    wheel: tuple[Path, Exchanged],
    there: HostContext,
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, made = wheel
    package = installed(file, tmp_path / "site", monkeypatch)
    take(there, made.key)
    assert objects_in(there, made.key) == made.objects > 0
    assert not told
    # Not read again: what is there was checked.
    package.write_bytes(b"")
    take(there, made.key)
    assert not told


def test_nothing_is_compiled_where_it_is_installed(
    wheel: tuple[Path, Exchanged], there: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, made = wheel
    installed(file, tmp_path / "site", monkeypatch)
    folder = take(there, made.key)
    build_small(there)
    assert not (folder / "compile.log").exists()


@pytest.mark.parametrize("harm", ["cut", "flipped", "gone"])
def test_a_damaged_one_is_said_and_done_without(
    harm: str,
    wheel: tuple[Path, Exchanged],
    there: HostContext,
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, made = wheel
    package = installed(file, tmp_path / "site", monkeypatch)
    content = package.read_bytes()
    if harm == "gone":
        package.unlink()
    else:
        middle = len(content) // 2
        package.write_bytes(content[:middle] + (b"" if harm == "cut" else b"x" * 8 + content[middle + 8 :]))
    take(there, made.key)
    assert objects_in(there, made.key) == 0
    assert len(told) == 1
    assert "is of no use" in told[0] and "what it lacks is compiled" in told[0]


def test_one_under_anothers_key_is_said_to_be_so(
    wheel: tuple[Path, Exchanged],
    there: HostContext,
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, made = wheel
    installed(file, tmp_path / "site", monkeypatch)
    (points,) = (tmp_path / "site").glob("*.dist-info/entry_points.txt")
    points.write_text(points.read_text().replace(made.key, "b" * 40))
    take(there, "b" * 40)
    assert objects_in(there, "b" * 40) == 0
    assert f"it is listed as bbbbbbbbbbbb and holds {made.key[:12]}" in told[0]


def test_others_are_named_where_something_is_to_be_compiled(
    wheel: tuple[Path, Exchanged],
    there: HostContext,
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(wheel[0], tmp_path / "site", monkeypatch)
    notes: list[str] = []
    monkeypatch.setattr(Story, "note", lambda _, message: notes.append(message))
    take(there, "c" * 40)
    assert not told
    assert len(notes) == 1 and notes[0].startswith(
        "no installed kernel archive is for this runtime: edgepack-kernels-"
    )
    monkeypatch.setenv("EDGEPACK_DISABLE_PLUGINS", "*")
    take(there, "d" * 40)
    assert len(notes) == 1


def test_of_two_for_one_key_the_objects_of_both_are_taken(
    wheel: tuple[Path, Exchanged],
    here: HostContext,
    there: HostContext,
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, made = wheel
    installed(file, tmp_path / "site", monkeypatch)
    archive = small_archive(here.store)
    for object in sorted(archive.objects.glob("*.o"))[1:]:
        object.unlink()
    exported = tmp_path / "less.tar.zst"
    fewer = export_archive(archive, exported, features=(), with_sources=False, context=here)
    other = write_wheel(exported, fewer, tmp_path / "wheels")
    assert other.name != file.name
    renamed = tmp_path / "other"
    installed(other, renamed, monkeypatch)
    (info,) = renamed.glob("*.dist-info")
    info = info.rename(info.with_name(info.name.replace("edgepack_", "another_")))
    (info / "METADATA").write_text((info / "METADATA").read_text().replace("Name: edgepack", "Name: another"))
    points = info / "entry_points.txt"
    (package,) = (path for path in renamed.iterdir() if not path.name.endswith(".dist-info"))
    points.write_text(points.read_text().replace(package.name, "another_package"))
    package.rename(renamed / "another_package")
    folder = take(there, made.key)
    assert len(list((folder / "installed").iterdir())) == 2
    assert objects_in(there, made.key) == made.objects
    assert not told


def test_the_same_archive_gives_the_same_wheel_that_pip_installs(
    wheel: tuple[Path, Exchanged], here: HostContext, tmp_path: Path
) -> None:
    file, made = wheel
    exported = tmp_path / "again.tar.zst"
    archive = small_archive(here.store)
    export_archive(archive, exported, features=(), with_sources=False, context=here)
    again = write_wheel(exported, made, tmp_path / "again")
    assert again.name == file.name
    assert again.read_bytes() == file.read_bytes()
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "-q", "--no-compile"]
    subprocess.run([*command, "--target", tmp_path / "site", file], check=True)
    (points,) = (tmp_path / "site").glob("*.dist-info/entry_points.txt")
    package = made.key + " = " + file.name.partition("-")[0]
    assert points.read_text() == f"[edgepack.kernels]\n{package}\n"
