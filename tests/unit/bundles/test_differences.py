"""Which difference of two builds is named: the file, the byte, the member."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from edgepack.bundles.archive import pack
from edgepack.bundles.differences import CHUNK, first_difference
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle

pytestmark = pytest.mark.tools("gcc")


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "lib/one.so").write_bytes(bytes(CHUNK + 10))
        (tmp_path / name / "manifest.json").write_text("{}")
        (tmp_path / name / "link").symlink_to("lib/one.so")
    return tmp_path / "a", tmp_path / "b"


def test_two_that_are_alike(copies: tuple[Path, Path]) -> None:
    assert first_difference(*copies) is None


@pytest.mark.parametrize("at", [0, 7, CHUNK - 1, CHUNK, CHUNK + 9])
def test_the_byte_is_named_and_what_follows_from_it_is_not(copies: tuple[Path, Path], at: int) -> None:
    content = bytearray(CHUNK + 10)
    content[at] = 1
    (copies[1] / "lib/one.so").write_bytes(content)
    # The manifest sorts before or after, and has the digests of all others.
    for folder, text in zip(copies, ("{1}", "{2}"), strict=True):
        (folder / "manifest.json").write_text(text)
    assert first_difference(*copies) == f"lib/one.so at byte {at:,}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "lib/one.so").unlink(), "lib/one.so is in the first build only"),
        (lambda folder: (folder / "new").touch(), "new is in the second build only"),
        (lambda folder: (folder / "lib/one.so").chmod(0o755), "lib/one.so has another mode: 0644 and 0755"),
        (lambda folder: (folder / "lib/one.so").write_bytes(b"\0"), "lib/one.so at byte 1"),
        (lambda folder: (folder / "manifest.json").write_text("{x}"), "manifest.json at byte 1"),
    ],
    ids=["missing", "more", "mode", "shorter", "manifest alone"],
)
def test_anything_else_is_named_too(
    copies: tuple[Path, Path], change: Callable[[Path], object], said: str
) -> None:
    change(copies[1])
    assert first_difference(*copies) == said


def test_a_link_that_leads_elsewhere(copies: tuple[Path, Path]) -> None:
    (copies[1] / "link").unlink()
    (copies[1] / "link").symlink_to("manifest.json")
    assert first_difference(*copies) == "link leads to lib/one.so and to manifest.json"


def test_the_member_of_an_archive(bundle: Bundle, tmp_path: Path, context: HostContext) -> None:
    archives = []
    for name in ("a", "b"):
        folder = tmp_path / name / bundle.directory.name
        shutil.copytree(bundle.directory, folder, symlinks=True)
        if name == "b":
            (folder / "embed").write_bytes(b"other")
        made = Bundle(directory=folder, manifest=bundle.manifest)
        archives.append(tmp_path / name / "bundle.tar.zst")
        pack(made, archives[-1], context=context)
    said = first_difference(*archives)
    assert said is not None and said.startswith("bundle.tar.zst at byte ")
    assert said.endswith("/embed") and ", in its member " in said


def test_the_member_of_a_zip_within_a_bundle(copies: tuple[Path, Path]) -> None:
    for folder, text in zip(copies, ("x = 1", "x = 2"), strict=True):
        with zipfile.ZipFile(folder / "lib/base.zip", "w") as file:
            file.writestr(zipfile.ZipInfo("a.py"), "")
            file.writestr(zipfile.ZipInfo("os.py"), text)
    said = first_difference(*copies)
    assert said is not None and said.endswith(", in its member os.py")


def test_the_same_members_packed_otherwise(copies: tuple[Path, Path]) -> None:
    for folder, way in zip(copies, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), strict=True):
        with zipfile.ZipFile(folder / "lib/base.zip", "w", way) as file:
            file.writestr("os.py", "x" * 1000)
    said = first_difference(*copies)
    assert said is not None and said.startswith("lib/base.zip at byte ") and "member" not in said
