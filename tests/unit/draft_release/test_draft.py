"""Another release drafted: which patches find their places in altered trees, the room, and what is said of what is no tree."""

from pathlib import Path
from types import SimpleNamespace

import bin.draft_release as drafting
import pytest
from bin.draft_release import Place, Tree, bring, draft, main, try_patch
from tests.unit.draft_release.trees import (
    CHECKS,
    LOOKED_UP,
    SIZES,
    TEXTS,
    move,
    remove,
    rename,
    small_release,
    write_tree,
)

from edgepack.errors import OutputError, UsageError
from edgepack.foundry.release import Release
from edgepack.foundry.releases import registry as known
from edgepack.foundry.releases.release_folder import read_room
from edgepack.foundry.sources.pinned import fetch_archives
from edgepack.plugins.context import HostContext

FUNCTION = f"{LOOKED_UP}\n  return LookUpByName(NameOfType(type));\n}}\n"
PROVIDER = "onnxruntime/core/providers/cpu/cpu_execution_provider.cc"


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    made = small_release(tmp_path / "data")
    monkeypatch.setattr(known, "RELEASES", (made,))
    own = write_tree(tmp_path / "known", "0.1.0").folder
    monkeypatch.setattr(drafting, "source_tree", lambda *_, **__: SimpleNamespace(onnxruntime=own))
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "new", "0.2.0").folder


def places_in(release: Release, tree: Path) -> dict[str, Place]:
    trees = (Tree(folder=folder, skip=("onnxruntime/test",)) for folder in (tree.parent / "known", tree))
    before, now = trees
    return {patch.name: try_patch(patch, before, now) for patch in (*release.overlay, *release.patches)}


def test_the_same_sources_under_another_version_fit(release: Release, tree: Path) -> None:
    found = places_in(release, tree)
    assert {name for name, place in found.items() if place.state != "fits"} == {"made"}
    assert found["made"].state == "generated", "neither tree has it: it is made by the build"


def test_a_function_or_a_file_that_was_moved_is_found_where_it_is(release: Release, tree: Path) -> None:
    move(tree, FUNCTION, SIZES, "core/framework/element_size.cc")
    place = places_in(release, tree)["sizes by number"]
    assert (place.state, place.file) == ("moved", "core/framework/element_size.cc")
    (tree / "onnxruntime" / SIZES).unlink()
    assert places_in(release, tree)["sizes by number"].state == "moved", (
        "what skipped folders hold is no place"
    )


def test_a_function_in_two_files_is_left_to_a_person(release: Release, tree: Path) -> None:
    move(tree, FUNCTION, SIZES, "core/framework/one.cc")
    (tree / "onnxruntime/core/framework/two.cc").write_text(FUNCTION)
    place = places_in(release, tree)["sizes by number"]
    assert (place.state, place.fits, [was for was, _ in place.lost]) == ("changed", False, [LOOKED_UP])


def test_where_two_words_changed_the_nearest_line_is_named(release: Release, tree: Path) -> None:
    rename(tree, "LookUpByName", "FindTypeByName")
    rename(tree, "ElementSize", "SizeOfElement")
    place = places_in(release, tree)["sizes by number"]
    assert place.state == "changed"
    assert place.lost == ((LOOKED_UP, LOOKED_UP.replace("ElementSize", "SizeOfElement")),)


def test_one_renamed_word_is_taken_for_the_other(release: Release, tree: Path) -> None:
    rename(tree, "ORT_ENFORCE", "ORT_MUST_HOLD")
    place = places_in(release, tree)["lean checks"]
    assert (place.state, place.file, place.renamed) == ("renamed", CHECKS, {"ORT_ENFORCE": "ORT_MUST_HOLD"})


def test_a_file_that_is_gone_for_good_says_so(release: Release, tree: Path) -> None:
    (tree / "onnxruntime" / SIZES).unlink()
    place = places_in(release, tree)["sizes by number"]
    assert (place.state, place.file, place.lost) == ("gone", SIZES, ((LOOKED_UP, ""),))


def test_a_room_that_builds_read_with_what_is_needed_alone(
    release: Release, tree: Path, tmp_path: Path, context: HostContext
) -> None:
    deps = tree / "cmake/deps.txt"
    deps.write_text(deps.read_text().replace("re2-1", "re2-2"))
    _, libraries = draft(tree, tmp_path / "room", release=release, context=context)
    assert libraries == ["re2;https://example.org/re2-2.zip;aa"]
    made = read_room(tmp_path / "room")
    assert (made.version, made.overlay) == ("0.2.0", ())
    assert [patch.name for patch in made.patches] == ["rows of cpu_execution_provider.cc"]
    (file,) = fetch_archives([made.catalogue.parts["onnxruntime"].archives], context=context)
    assert file.name == "onnxruntime-0.2.0.tar.zst", "the sources are where builds look for them"
    with pytest.raises(OutputError):
        draft(tree, tmp_path / "room", release=release, context=context)


def test_a_room_without_a_needed_patch_is_refused_by_builds(
    release: Release, tree: Path, tmp_path: Path, context: HostContext
) -> None:
    (tree / PROVIDER).write_text(
        (tree / PROVIDER).read_text().replace("BuildKernelCreateInfo<ONNX", "MakeInfo<A_KERNEL")
    )
    draft(tree, tmp_path / "room", release=release, context=context)
    with pytest.raises(
        UsageError, match=r"leaves out 'rows of cpu_execution_provider.cc', which no runtime"
    ) as error:
        read_room(tmp_path / "room")
    assert error.value.hint


def test_the_script_says_what_it_found(
    release: Release,
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rename(tree, "ORT_ENFORCE", "ORT_MUST_HOLD")
    (tree / "onnxruntime/core/common/fail.cc").write_text(TEXTS[SIZES])
    monkeypatch.setattr(
        drafting, "draft", lambda *_, **__: (list(places_in(release, tree).values()), ["re2;x;y"])
    )
    main(["--sources", str(tree), "-o", str(tmp_path / "room")])
    lines = capsys.readouterr().out.splitlines()
    assert f"renamed    size    lean checks, with checks: {CHECKS}" in lines
    assert (
        "    ORT_ENFORCE is ORT_MUST_HOLD now" in lines
        and lines[-1] == "to be pinned in data/sources.toml: re2;x;y"
    )
    assert "    has no `AbortTheWholeProcess(condition);`" in lines


def test_what_is_no_tree_of_another_release_leaves_nothing(
    release: Release, tree: Path, tmp_path: Path, context: HostContext
) -> None:
    known_again = write_tree(tmp_path / "again", release.version).folder
    for sources, message in (
        (known_again, "known to edgepack"),
        (tmp_path / "nowhere", "lacks VERSION_NUMBER, cmake"),
    ):
        with pytest.raises(UsageError, match=message) as error:
            draft(sources, tmp_path / "room", release=release, context=context)
        assert error.value.hint and not (tmp_path / "room").exists()
    (tree / "VERSION_NUMBER").write_text("0.3.0\n")
    with pytest.raises(UsageError, match=r"VERSION_NUMBER says '0\.3\.0', which .* does not"):
        bring(tree, work_dir=tmp_path)
    remove(tree, "cmake")
    with pytest.raises(UsageError, match=r"it lacks cmake/CMakeLists\.txt, cmake/deps\.txt"):
        bring(tree, work_dir=tmp_path)
