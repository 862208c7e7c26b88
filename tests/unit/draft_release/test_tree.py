"""What is a source tree of ONNX Runtime, and what is said of what is none."""

import tarfile
from pathlib import Path

import pytest
from bin.draft_release.tree import VERSION_FILE, bring
from tests.unit.draft_release.trees import remove, write_tree

from edgepack.errors import DownloadError, UsageError
from edgepack.foundry.sources.tree import HEADER


def brought(sources: Path, tmp_path: Path) -> str:
    return bring(sources, work_dir=tmp_path / "work").version


def test_a_folder_and_an_archive_of_it(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "onnxruntime-0.2.0", "0.2.0")
    assert brought(tree.folder, tmp_path) == "0.2.0"
    file = tmp_path / "onnxruntime-0.2.0.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.add(tree.folder, "onnxruntime-0.2.0")
    assert brought(file, tmp_path / "unpacked") == "0.2.0"


def test_what_is_no_source_tree(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no sources") as missing:
        brought(tmp_path / "nowhere", tmp_path)
    assert missing.value.hint and "name the folder" in missing.value.hint
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        UsageError, match="holds no sources of ONNX Runtime: there is no VERSION_NUMBER"
    ) as empty:
        brought(tmp_path / "empty", tmp_path)
    assert empty.value.hint
    (tmp_path / "notes.txt").write_text("no archive\n")
    with pytest.raises(UsageError, match="there are no sources"):
        brought(tmp_path / "notes.txt", tmp_path)


def test_the_folder_around_a_tree_names_the_tree(tmp_path: Path) -> None:
    inner = write_tree(tmp_path / "downloads/onnxruntime-0.2.0", "0.2.0").folder
    with pytest.raises(UsageError, match="holds no sources") as outer:
        brought(tmp_path / "downloads", tmp_path)
    assert outer.value.hint == f"ONNX Runtime lies in {inner}: name that folder"


def test_half_a_tree_names_what_it_lacks(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "half", "0.2.0").folder
    remove(tree, "cmake")
    remove(tree, "onnxruntime/core/mlas")
    with pytest.raises(UsageError) as half:
        brought(tree, tmp_path)
    assert "is not a whole source tree" in half.value.message
    assert "cmake/CMakeLists.txt, cmake/deps.txt, onnxruntime/core/mlas/lib" in half.value.message
    assert half.value.hint == "unpack the release's archive again, or check out all of its files"


def test_half_an_archive(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "onnxruntime-0.2.0", "0.2.0")
    file = tmp_path / "onnxruntime.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.add(tree.folder, "onnxruntime-0.2.0")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(DownloadError, match="cannot be unpacked"):
        brought(file, tmp_path)


def test_versions_that_are_none_or_disagree(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree", "0.2.0").folder
    (tree / VERSION_FILE).write_text("main\n")
    with pytest.raises(UsageError, match="says 'main', which is no version"):
        brought(tree, tmp_path)
    (tree / VERSION_FILE).write_text("0.3.0\n")
    with pytest.raises(UsageError, match=r"is of two releases: VERSION_NUMBER says 0\.3\.0, .* API 2"):
        brought(tree, tmp_path)
    (tree / HEADER).write_text("// nothing\n")
    with pytest.raises(UsageError, match="no API"):
        brought(tree, tmp_path)
