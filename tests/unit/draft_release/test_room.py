"""A room that is a folder: written, read again, and what is said of one that was spoilt."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from bin.draft_release import Tree, pack_tree, try_patch, write_room
from tests.unit.draft_release.test_draft import FUNCTION
from tests.unit.draft_release.trees import CHECKS, SIZES, move, rename, small_release, write_tree

from edgepack.api.axes import LinuxPlatform
from edgepack.errors import ToolError, UsageError
from edgepack.foundry.patch import RuntimeRequest
from edgepack.foundry.processors.x86_64 import X86_64
from edgepack.foundry.release import Release
from edgepack.foundry.releases import registry as known
from edgepack.foundry.releases.release_folder import ROOM, read_room
from edgepack.plugins.context import HostContext
from edgepack.records.operators import Operators

ANY = RuntimeRequest(kind="", arch="", needs=Operators(), possible=Operators())


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    made = small_release(tmp_path / "data")
    monkeypatch.setattr(known, "RELEASES", (made,))
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    new = write_tree(tmp_path / "new", "0.2.0")
    move(new.folder, FUNCTION, SIZES, "core/framework/element_size.cc")
    rename(new.folder, "ORT_ENFORCE", "ORT_MUST_HOLD")
    return new


@pytest.fixture
def room(release: Release, tree: Tree, tmp_path: Path, context: HostContext) -> Path:
    return drafted(release, tree, tmp_path / "room", context)


def drafted(release: Release, tree: Tree, folder: Path, context: HostContext) -> Path:
    folder.mkdir()
    own = write_tree(folder.parent / "known", "0.1.0")
    places = [try_patch(patch, own, tree) for patch in (*release.overlay, *release.patches)]
    write_room(places, tree, release, folder, context=context)
    return folder


def turn_on(room: Path, *names: str) -> None:
    text = (room / ROOM).read_text()
    for name in names:
        head, mark, rest = text.partition(f'[patches."{name}"]\n')
        text = head + mark + rest.replace("use = false", "use = true", 1)
    (room / ROOM).write_text(text)


def test_a_first_build_uses_what_is_needed_alone(room: Path, release: Release) -> None:
    made = read_room(room)
    assert (made.version, made.overlay) == ("0.2.0", ())
    assert [patch.name for patch in made.patches] == ["rows of cpu_execution_provider.cc"]
    assert made.build_settings("linux") == release.build_settings("linux")
    assert made.table == release.table


def test_its_sources_are_pinned_and_the_others_stay(room: Path, release: Release, tmp_path: Path) -> None:
    made = read_room(room).catalogue
    (archive,) = made.parts["onnxruntime"].archives
    assert (made.version, archive.file, archive.top) == (
        "0.2.0",
        "onnxruntime-0.2.0.tar.zst",
        "onnxruntime-0.2.0",
    )
    assert made.parts["re2"] == release.catalogue.parts["re2"]
    assert made.parts["onnxruntime"].skip == ("onnxruntime/test",)


def test_the_same_tree_gives_the_same_archive(tree: Tree, context: HostContext) -> None:
    first = pack_tree(tree, context)
    (tree.folder / ".git").mkdir()
    (tree.folder / ".git/HEAD").write_text("other\n")
    assert pack_tree(tree, context) == first, "where it was checked out from is no part of it"


def test_patches_are_turned_on_for_the_places_that_were_found(room: Path) -> None:
    turn_on(room, "lean checks", "sizes by number")
    made = read_room(room)
    (lean,) = made.overlay
    text = "#define ORT_MUST_HOLD(condition) Fail(condition)\n"
    assert lean.file == CHECKS and lean.rewritten(text, ANY, origin="") == f"{text}// lean\n"
    moved = next(patch for patch in made.patches if patch.name == "sizes by number")
    assert (moved.file, moved.units) == ("core/framework/element_size.cc", "*/core/framework/element_size.cc")


def test_the_table_of_kernels_is_followed_to_its_file(
    release: Release, tree: Tree, tmp_path: Path, context: HostContext
) -> None:
    own = tree.folder / "onnxruntime/core/mlas/lib"
    (own / "platform.cpp").rename(own / "choose_kernels.cpp")
    folder = drafted(release, Tree(folder=tree.folder), tmp_path / "moved", context)
    unit = "onnxruntime_mlas/core/mlas/lib/choose_kernels.cpp"
    assert read_room(folder).table.unit(["onnxruntime_mlas/core/mlas/lib/gemm.cpp", unit]) == unit
    with pytest.raises(ToolError, match=r"no unit is compiled from core/mlas/lib/platform\.cpp") as error:
        release.table.unit([unit])
    assert error.value.hint and "upgrading-onnxruntime" in error.value.hint


def test_another_room_is_another_runtime(room: Path) -> None:
    before = read_room(room).room
    assert before and read_room(room).room == before
    turn_on(room, "lean checks")
    assert read_room(room).room != before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("use = true", "use = false"), "leaves out 'rows of cpu_execution_provider.cc', which no runtime"),
        (('"lean checks"', '"lean cheks"'), "has no patch 'lean cheks' (did you mean lean checks?)"),
        (("schema = 1", "schema = 9"), "has schema 9, expected 1"),
        (('like = "0.1"', 'like = "7.7"'), "no sources are known for ONNX Runtime 7.7"),
        (("version = ", "version ? "), "cannot be read: not valid TOML"),
        (('version = "0.2.0"\n', ""), "cannot be read: 'version'"),
    ],
)
def test_a_room_that_was_spoilt(room: Path, change: tuple[str, str], message: str) -> None:
    text = (room / ROOM).read_text()
    assert change[0] in text
    (room / ROOM).write_text(text.replace(*change))
    with pytest.raises(UsageError) as error:
        read_room(room)
    assert message in error.value.message and error.value.hint


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no room of a release: it has no room\.toml") as error:
        read_room(tmp_path)
    assert error.value.hint == "docs/upgrading-onnxruntime.md says how one is made"


def test_comments_say_what_each_patch_gives(room: Path) -> None:
    text = (room / ROOM).read_text()
    assert "# gives size, renamed\n" in text or "# gives size\n" in text
    said = tomllib.loads(text)["patches"]
    assert said["lean checks"] == {"use": False, "file": CHECKS, "renamed": {"ORT_ENFORCE": "ORT_MUST_HOLD"}}


def test_a_release_that_edgepack_knows_has_no_room(release: Release) -> None:
    assert release.room == "" and replace(release, room="x").room == "x"


def test_a_platform_of_a_plugin_builds_a_room_s_release(room: Path) -> None:
    platform = LinuxPlatform(processor=X86_64, release=read_room(room))
    assert platform.release.version == "0.2.0"
