"""A room tried on altered trees: which patches fit, where the others' places went, and what else differs."""

from pathlib import Path

import pytest
from bin.draft_release.markdown import upgrade_page
from bin.draft_release.places import Place
from bin.draft_release.steps import steps
from bin.draft_release.survey import Survey, survey
from bin.draft_release.tree import Tree
from tests.unit.draft_release.trees import (
    CHECKS,
    EXTRA,
    LOOKED_UP,
    SIZES,
    TEXTS,
    move,
    remove,
    rename,
    small_release,
    write_tree,
)
from tests.unit.foundry.toy import UNITS

from edgepack.errors import UsageError
from edgepack.foundry.release import Release

FUNCTION = f"{LOOKED_UP}\n  return LookUpByName(NameOfType(type));\n}}\n"
PROVIDER = "onnxruntime/core/providers/cpu/cpu_execution_provider.cc"


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return small_release(tmp_path / "data")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "new", "0.2.0").folder


def surveyed(release: Release, tree: Path) -> Survey:
    known = write_tree(tree.parent / "known", "0.1.0")
    return survey(release, known, Tree(folder=tree, skip=("onnxruntime/test",)))


def place_of(found: Survey, name: str) -> Place:
    return next(place for place in found.places if place.patch == name)


def test_the_same_sources_under_another_version_fit(release: Release, tree: Path) -> None:
    found = surveyed(release, tree)
    assert {place.state for place in found.places} == {"fits", "generated"}
    assert place_of(found, "made").state == "generated", "neither tree has it: it is made by the build"
    assert found.left_out == frozenset() and found.in_the_way == ()
    assert found.used == ("rows of cpu_execution_provider.cc",), "a first build has none that only shrink"
    assert (
        found.files.same == found.files.plan == len(UNITS) + 1
        and not found.files.gone
        and not found.files.new
    )
    assert (found.kernels.known, found.kernels.now, found.kernels.unread) == (5, 5, 0)
    assert [step.title for step in steps(found)] == [
        "Turn on the patches that fit, one after another: `use = true` in room.toml"
    ]


def test_a_function_that_was_moved_is_found_where_it_is(release: Release, tree: Path) -> None:
    move(tree, FUNCTION, SIZES, "core/framework/element_size.cc")
    found = place_of(surveyed(release, tree), "sizes by number")
    assert (found.state, found.now) == ("moved", "core/framework/element_size.cc")


def test_a_function_in_two_files_is_said_and_left_to_a_person(release: Release, tree: Path) -> None:
    move(tree, FUNCTION, SIZES, "core/framework/one.cc")
    move(tree, FUNCTION, "core/framework/one.cc", "core/framework/two.cc")
    (tree / "onnxruntime/core/framework/one.cc").write_text(FUNCTION)
    found = place_of(surveyed(release, tree), "sizes by number")
    assert found.state == "changed"
    assert found.missing[0].elsewhere == ("core/framework/one.cc:1", "core/framework/two.cc:1")


def test_where_two_words_changed_the_nearest_line_is_named(release: Release, tree: Path) -> None:
    rename(tree, "LookUpByName", "FindTypeByName")
    rename(tree, "ElementSize", "SizeOfElement")
    found = surveyed(release, tree)
    place = place_of(found, "sizes by number")
    assert place.state == "changed"
    near = place.missing[0].nearest[0]
    assert near.text == LOOKED_UP.replace("ElementSize", "SizeOfElement") and near.likeness > 0.7
    assert f"`{near.text}`" in upgrade_page(found, [])


def test_one_renamed_word_is_taken_for_the_other(release: Release, tree: Path) -> None:
    rename(tree, "ORT_ENFORCE", "ORT_MUST_HOLD")
    found = place_of(surveyed(release, tree), "lean checks")
    assert (found.state, found.now, found.renamed) == ("renamed", CHECKS, {"ORT_ENFORCE": "ORT_MUST_HOLD"})


def test_a_place_that_was_rewritten_leaves_its_whole_group_out(release: Release, tree: Path) -> None:
    (tree / "onnxruntime/core/common/fail.cc").write_text("// nothing of it is left\n")
    found = surveyed(release, tree)
    assert place_of(found, "what fails").state == "changed"
    assert found.left_out == {"what fails", "lean checks"}
    (mend,) = [step for step in steps(found) if "'lean checks'" in step.title]
    assert mend.details == ("it fits, but serves only with the others of its group, checks",)


def test_a_file_that_was_moved_is_followed(release: Release, tree: Path) -> None:
    own = tree / "onnxruntime"
    (own / SIZES).rename(own / "core/framework/buffer_sizes.cc")
    found = surveyed(release, tree)
    assert (place_of(found, "sizes by number").state, place_of(found, "sizes by number").now) == (
        "moved",
        "core/framework/buffer_sizes.cc",
    )
    (gone,) = found.files.gone
    assert gone.file == SIZES and [(each.file, each.share) for each in gone.holders] == [
        ("core/framework/buffer_sizes.cc", 1.0)
    ]
    assert found.files.new == ("core/framework/buffer_sizes.cc",)


def test_a_file_that_was_split_names_its_halves(release: Release, tree: Path) -> None:
    own = tree / "onnxruntime"
    head, tail = TEXTS[SIZES].split(LOOKED_UP)
    (own / "core/framework/other.cc").write_text(head)
    (own / "core/framework/element.cc").write_text(LOOKED_UP + tail)
    (own / SIZES).unlink()
    found = surveyed(release, tree)
    (gone,) = found.files.gone
    assert {each.file for each in gone.holders} == {"core/framework/other.cc", "core/framework/element.cc"}
    assert place_of(found, "sizes by number").now == "core/framework/element.cc"


def test_a_file_that_is_gone_for_good_says_so(release: Release, tree: Path) -> None:
    (tree / "onnxruntime" / SIZES).unlink()
    found = surveyed(release, tree)
    place = place_of(found, "sizes by number")
    assert (place.state, place.now, place.holders) == ("gone", "", ())
    page = upgrade_page(found, ["not tried"])
    assert f"{SIZES} is gone; no new or changed file holds its lines" in page, (
        "what skipped folders hold is no place"
    )
    assert "Mend the patch 'sizes by number', or do without: runtimes are slower without it" in page


def test_kernels_that_are_new_gone_and_changed(release: Release, tree: Path) -> None:
    file = tree / PROVIDER
    text = file.read_text().replace("14, Mul)", "23, RMSNormalization)").replace("13, Cast)", "19, Cast)")
    file.write_text(
        text.replace("BuildKernelCreateInfo<void>,", "BuildKernelCreateInfo<SOME_NEW_FORM(Add)>,")
    )
    found = surveyed(release, tree).kernels
    assert found.new == ("ai.onnx:RMSNormalization 23",)
    assert found.gone == ("ai.onnx:Mul 14",)
    assert found.changed == ("ai.onnx:Cast: + 19, - 13",)
    assert found.unread == 1


def test_a_needed_patch_without_its_place_is_in_the_way(release: Release, tree: Path) -> None:
    file = tree / PROVIDER
    file.write_text(file.read_text().replace("BuildKernelCreateInfo<ONNX_OPERATOR", "MakeInfo<A_KERNEL"))
    found = surveyed(release, tree)
    assert [place.patch for place in found.in_the_way] == ["rows of cpu_execution_provider.cc"]
    assert found.kernels.not_read == (PROVIDER.removeprefix("onnxruntime/"),)
    assert steps(found)[0].title.endswith("no runtime can be made without it")


def test_libraries_of_other_versions_and_lost_files(release: Release, tree: Path) -> None:
    deps = tree / "cmake/deps.txt"
    deps.write_text(deps.read_text().replace("re2-1", "re2-2").replace("json;", "yaml;"))
    remove(tree, "symbols.txt")
    found = surveyed(release, tree)
    assert [(part.name, bool(part.before), bool(part.now)) for part in found.parts] == [
        ("json", True, False),
        ("re2", True, True),
        ("yaml", False, True),
    ]
    assert found.places_lost == ("symbols.txt",)
    pin = next(step for step in steps(found) if step.title.startswith("Pin"))
    assert pin.details[0] == "re2: https://example.org/re2-2.zip (before: https://example.org/re2-1.zip)"


def test_a_pattern_of_build_toml_that_matches_nothing_any_more(release: Release, tree: Path) -> None:
    remove(tree, "onnxruntime/core/session/toy_api.cc")
    assert surveyed(release, tree).files.rules == ("*/toy_api.cc",)


def test_the_release_itself_is_nothing_to_draft(tmp_path: Path) -> None:
    release = small_release(tmp_path / "data")
    known = write_tree(tmp_path / "known", release.version)
    with pytest.raises(UsageError, match=r"0\.1 is known to edgepack"):
        survey(release, known, known)


def test_every_patch_of_the_toy_is_tried(release: Release, tree: Path) -> None:
    names = {place.patch for place in surveyed(release, tree).places}
    assert {patch.name for patch in EXTRA} < names and len(names) == len(release.overlay) + len(
        release.patches
    )
