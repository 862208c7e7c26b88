"""A bundle as one file: it answers what the folder's program answers, and what somebody did to it is said and never a crash."""

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.signed import key_in
from tests.support.table_sample import TEXTS, write_native_sample

from edgepack import sign
from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.bundles.packages import make_packages, packagers_of
from edgepack.errors import BundleError, UsageError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack_single.package import ALIGNMENT, Single, create_packager

pytestmark = pytest.mark.tools("c++", "python", may=("gcc", "cc"))

END = struct.Struct("<4sHHHHIIH")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_native_sample(tmp_path_factory.mktemp("single") / "bundle", library=True)


@pytest.fixture(scope="module")
def single(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Alone in its folder."""
    file = tmp_path_factory.mktemp("alone") / "embed"
    Single().pack(bundle, file, context=None)  # type: ignore[arg-type]
    return file


@pytest.fixture
def copy(single: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(single, tmp_path / "copy"))


def target(**changed: object) -> Target:
    made = Target(
        name="tiny",
        summary="",
        builder="linux",
        platform=Platform(os="linux", arch="x86_64"),
        model=ModelOptions(),
        packages=("single",),
        options={"runner": "native"},
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def run(program: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *words], capture_output=True, encoding="utf-8", check=False, env=environment, cwd="/"
    )


def refused(program: Path, *words: str | Path) -> str:
    """What is said of a file that the program has to refuse as a bundle."""
    done = run(program, *(words or ("a cat",)))
    assert (done.returncode, done.stdout) == (4, ""), done
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ") and second.startswith("hint: ")
    return first.removeprefix("error: ")


def test_it_answers_what_the_folders_program_answers(bundle: Bundle, single: Path, tmp_path: Path) -> None:
    for words in (
        ["--out", "json", "--", *TEXTS],
        ["--similarity", "a cat", "kitten"],
        ["--info"],
        ["--self-test"],
    ):
        alone, folder = run(single, *words), run(bundle.program, *words)
        assert (alone.returncode, alone.stderr) == (0, "")
        assert alone.stdout == folder.stdout
    assert "files intact" in run(single, "--check").stdout
    (tmp_path / "link").symlink_to(single)
    assert run(tmp_path / "link", "a cat").stdout == run(single, "a cat").stdout


def test_nothing_is_written_and_nothing_is_unpacked(single: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    lone = Path(shutil.copy(single, tmp_path / "bin/embed"))
    lone.chmod(0o555)
    (tmp_path / "bin").chmod(0o555)
    assert run(lone, "a cat", TMPDIR=str(tmp_path / "nowhere")).returncode == 0
    (tmp_path / "bin").chmod(0o755)
    assert [path.name for path in (tmp_path / "bin").iterdir()] == ["embed"]


def test_its_own_bundle_comes_before_one_beside_it(bundle: Bundle, single: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle.directory, tmp_path / "other"))
    (folder / "manifest.json").write_text("{}")
    (folder / "embed").unlink()
    beside = Path(shutil.copy(single, folder / "embed"))
    assert run(beside, "a cat").stdout == run(single, "a cat").stdout


def test_members_lie_where_they_can_be_mapped(bundle: Bundle, single: Path) -> None:
    content = single.read_bytes()
    assert content.startswith(bundle.program.read_bytes())
    with zipfile.ZipFile(single) as archive:
        assert archive.testzip() is None
        listed = {str(file["path"]) for file in bundle.manifest["files"]}
        assert {*archive.namelist(), "embed"} == {*listed, "manifest.json"}
        for member in archive.infolist():
            name, extra = struct.unpack_from("<HH", content, member.header_offset + 26)
            at = member.header_offset + 30 + name + extra
            assert at % ALIGNMENT == 0
            assert content[at : at + member.file_size] == (bundle.directory / member.filename).read_bytes()


def test_the_same_bundle_gives_the_same_bytes(bundle: Bundle, single: Path, tmp_path: Path) -> None:
    Single().pack(bundle, tmp_path / "again", context=None)  # type: ignore[arg-type]
    assert (tmp_path / "again").read_bytes() == single.read_bytes()
    assert os.access(tmp_path / "again", os.X_OK)


def test_the_host_finds_the_bundle_in_it(
    bundle: Bundle, single: Path, context: HostContext, tmp_path: Path
) -> None:
    (package,) = make_packages(bundle, packagers_of(target(), context), context=context)
    assert (package.file.name, package.file.read_bytes()) == ("sample.embed", single.read_bytes())
    inside = open_bundle(unpack_bundle(single, tmp_path / "inside"))
    assert digest(inside) == digest(bundle)
    assert inside.program.read_bytes() == bundle.program.read_bytes() and os.access(inside.program, os.X_OK)


def test_libembed_opens_it(bundle: Bundle, single: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1] + '/python')\n"
        "import edgepack_bundle as e\n"
        "library = sys.argv[1] + '/lib/libembed.so'\n"
        "for check in ('content', 'once', 'once', 'size'):\n"
        "    one, other = e.Bundle(sys.argv[2], check=check, library=library), e.Bundle(sys.argv[1])\n"
        "    print(list(one.embed('a cat')) == list(other.embed('a cat')), one.tokens('a cat'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, bundle.directory, single], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["True [2, 4, 5, 3]"] * 4, done.stderr


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_signature_is_checked_as_in_the_folder(bundle: Bundle, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle.directory, tmp_path / "signed"))
    key_in(tmp_path)
    key_in(tmp_path, "other")
    sign(folder, key=tmp_path / "key.key")
    file = tmp_path / "embed"
    Single().pack(open_bundle(folder), file, context=None)  # type: ignore[arg-type]
    asked = ("--require-signature", tmp_path / "key.pub", "a cat")
    assert run(file, *asked).returncode == 0
    assert "another key" in refused(file, "--require-signature", tmp_path / "other.pub", "a cat")
    turn_a_bit(file, 9)
    assert "embed is damaged: its content does not match" in refused(file, *asked)
    turn_a_bit(file, 9)
    file.chmod(0o757)
    assert "has a mode with which anyone may change it" in refused(file, *asked)
    file.chmod(0o755)
    for name in ("model/more.bin", "embed", "manifest.json"):
        other = Path(shutil.copy(file, tmp_path / "other"))
        with zipfile.ZipFile(other, "a") as archive:
            archive.writestr(name, b"x")
        assert f"{name} is not in the manifest" in refused(other, *asked)


def turn_a_bit(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def end_of(file: Path) -> tuple[int, int]:
    """Where a zip's end is, and where its list begins."""
    content = file.read_bytes()
    at = len(content) - END.size
    return at, END.unpack_from(content, at)[6]


def entry_of(file: Path, name: str) -> int:
    """Where a member's entry in the list begins."""
    content, (_, start) = file.read_bytes(), end_of(file)
    return content.index(name.encode(), start) - 46


@pytest.mark.parametrize(
    "kept", ["half", "without the end", "one byte less", "the program alone", "more behind it"]
)
def test_what_is_cut_short_says_so(copy: Path, kept: str) -> None:
    content, (place, _) = copy.read_bytes(), end_of(copy)
    with zipfile.ZipFile(copy) as archive:
        first = min(member.header_offset for member in archive.infolist())
    sizes = {
        "half": len(content) // 2,
        "without the end": place,
        "one byte less": len(content) - 1,
        "the program alone": first,
    }
    copy.write_bytes(content[: sizes[kept]] if kept in sizes else content + b"x")
    said = run(copy, "a cat")
    assert said.returncode == 4
    assert said.stderr.splitlines() == [
        f"error: cannot read {copy.parent}/manifest.json: No such file or directory",
        "hint: the program must stay in the folder of its bundle; one that is a file with it has to be whole",
    ]


@pytest.mark.parametrize("value", [0, 1, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("field", [12, 16])
def test_an_end_that_leads_elsewhere_is_no_end(copy: Path, field: int, value: int) -> None:
    content, (place, _) = bytearray(copy.read_bytes()), end_of(copy)
    struct.pack_into("<I", content, place + field, value)
    copy.write_bytes(content)
    assert "manifest.json" in refused(copy)
    with pytest.raises(BundleError):
        unpack_bundle(copy, copy.with_name("unpacked"))


def test_a_second_list_that_only_others_read_is_refused(copy: Path) -> None:
    """The program reads the list that the end names; a record for archives of more than 4 GB names another."""
    content, (place, start) = copy.read_bytes(), end_of(copy)
    listed = content[start:place]
    count = END.unpack_from(content, place)[3]
    large = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(listed), start)
    large += struct.pack("<4sIQI", b"PK\6\7", 0, 0, 1)
    # Before it, the list that the program reads: with other places for a member, it would be of another model.
    lists = listed + listed + large
    end = END.pack(b"PK\5\6", 0, 0, count, count, len(lists), start, 0)
    copy.write_bytes(content[:start] + lists + end)
    assert run(copy, "a cat").returncode == 0
    with zipfile.ZipFile(copy) as archive:
        assert archive.start_dir == start + len(listed)
    with pytest.raises(BundleError, match="more than one list of files"):
        unpack_bundle(copy, copy.with_name("unpacked"))


@pytest.mark.parametrize(
    ("field", "form", "value"),
    [
        (10, "<H", 8),  # deflated
        (20, "<I", 3),
        (24, "<I", 0xFFFFFFF0),
        (28, "<H", 0xFFFF),
        (30, "<H", 0xFFFF),
        (42, "<I", 0xFFFFFFF0),
        (42, "<I", 0),
        (0, "<I", 0),
    ],
)
@pytest.mark.parametrize("name", ["manifest.json", "model/model.onnx"])
def test_an_entry_that_leads_out_of_the_file(
    copy: Path, name: str, field: int, form: str, value: int
) -> None:
    content = bytearray(copy.read_bytes())
    struct.pack_into(form, content, entry_of(copy, name) + field, value)
    copy.write_bytes(content)
    said = refused(copy)
    assert name.rpartition("/")[2] in said or "manifest.json" in said


@pytest.mark.parametrize(
    ("field", "form", "value"), [(0, "<I", 0), (26, "<H", 0xFFFF), (28, "<H", 0xFFFF), (28, "<H", 1)]
)
def test_a_member_that_does_not_begin_where_it_is_said(copy: Path, field: int, form: str, value: int) -> None:
    with zipfile.ZipFile(copy) as archive:
        local = archive.getinfo("model/model.onnx").header_offset
    content = bytearray(copy.read_bytes())
    struct.pack_into(form, content, local + field, value)
    copy.write_bytes(content)
    assert "model/model.onnx is missing from the bundle: Invalid argument" in refused(copy)


@pytest.mark.parametrize("name", ["model/model.onnx", "model/tokenizer.bin", "golden.json"])
def test_a_changed_byte_of_a_member_is_found(bundle: Bundle, copy: Path, name: str) -> None:
    turn_a_bit(copy, copy.read_bytes().rindex((bundle.directory / name).read_bytes()) + 40)
    assert f"{name} is damaged: its content does not match its SHA-256" in refused(copy, "--check")
    with pytest.raises(BundleError):
        open_bundle(unpack_bundle(copy, copy.with_name("unpacked")))


def test_what_a_manifest_says_of_a_member_holds(bundle: Bundle, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle.directory, tmp_path / "changed"))
    manifest = json.loads((folder / "manifest.json").read_text())
    for size, path in ((1 << 40, "model/model.onnx"), (1, "model/model.onnx")):
        listed = [
            {**file, "size": size if file["path"] == path else file["size"]} for file in manifest["files"]
        ]
        (folder / "manifest.json").write_text(json.dumps({**manifest, "files": listed}))
        Single().pack(replace(bundle, directory=folder), tmp_path / "embed", context=None)  # type: ignore[arg-type]
        assert "model/model.onnx is damaged: " in refused(tmp_path / "embed")
    (folder / "manifest.json").write_text(
        json.dumps({**manifest, "model": {**manifest["model"], "file": "../../etc/passwd"}})
    )
    Single().pack(replace(bundle, directory=folder), tmp_path / "embed", context=None)  # type: ignore[arg-type]
    assert "but does not list it" in refused(tmp_path / "embed")


def test_a_program_without_a_bundle_is_no_archive(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="a program with no bundle behind it, or not the whole of one"):
        unpack_bundle(bundle.program, tmp_path / "unpacked")


def test_a_file_that_holds_the_program_twice(bundle: Bundle, copy: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(copy, "a") as archive:
        archive.writestr("embed", b"another")
    with pytest.raises(BundleError, match="'embed' twice"):
        unpack_bundle(copy, tmp_path / "unpacked")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"platform": Platform(os="web", arch="wasm32")}, "a bundle for web cannot be one file"),
        ({"platform": Platform(os="macos", arch="aarch64")}, "a bundle for macos cannot be one file"),
        (
            {
                "platform": Platform(os="windows", arch="x86_64"),
                "options": {"authenticode": "sign {unsigned} {signed}"},
            },
            "signed for Windows ends with its signature",
        ),
        ({"options": {}}, "a program that is frozen with Python cannot be one file"),
    ],
)
def test_what_cannot_be_one_file_is_said_before_anything_is_made(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        create_packager(target(**changes))


@pytest.mark.parametrize(
    ("section", "value", "words"),
    [
        ("runner", {"program": "embed", "kind": "pyinstaller"}, "of kind 'pyinstaller'"),
        ("runtime", {"library": "lib/libonnxruntime.so"}, "loads a library"),
        ("files", [{"path": "embed", "size": 5 << 30}], "a bundle of 5.4 GB is too large"),
    ],
)
def test_a_bundle_that_needs_files_is_refused(
    bundle: Bundle, tmp_path: Path, section: str, value: object, words: str
) -> None:
    other = replace(bundle, manifest={**bundle.manifest, section: value})
    with pytest.raises(UsageError, match=words):
        Single().pack(other, tmp_path / "file", context=None)  # type: ignore[arg-type]
