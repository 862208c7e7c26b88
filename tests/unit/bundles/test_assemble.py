"""A bundle's folder: what is in it, that it is the same each time, and what is refused."""

import errno
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgepack.bundles import manifest as manifests
from edgepack.bundles.golden import TEXTS
from edgepack.errors import BundleError, DiskFullError, FloorError, OutputError
from edgepack.files.store import ENTRY_FILE, sha256_of
from edgepack.models.reference import embed_with_onnxruntime
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import PreparedModel
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Platform

from .conftest import compile_c, names_in

pytestmark = pytest.mark.tools("gcc", may=("mount", "umount"))

Assembled = Callable[..., Bundle]


def listing(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Mode and content of everything in a folder."""
    return {
        path.relative_to(folder).as_posix(): (
            oct(path.lstat().st_mode),
            os.fsencode(path.readlink())
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


def test_a_bundle_holds_the_parts_where_the_runner_looks_for_them(bundle: Bundle) -> None:
    names = set(listing(bundle.directory))
    assert {
        "embed",
        "_internal/data.bin",
        "model/model.onnx",
        "model/tokenizer.json",
        "lib/libonnxruntime.so.1.21.0",
        "golden.json",
        "manifest.json",
        "LICENSES/NOTICES.txt",
    } <= names
    assert subprocess.run([bundle.program], capture_output=True, check=True).stdout == b"hello\n"


def test_the_manifest_says_what_the_bundle_is(bundle: Bundle, model: PreparedModel) -> None:
    said = json.loads((bundle.directory / "manifest.json").read_text())
    assert said == bundle.manifest
    assert said["schema"] == 1
    assert said["name"] == bundle.name == "tiny-model-tiny-target"
    assert said["target"]["platform"] == {"os": "linux", "arch": "x86_64", "glibc": "2.99"}
    assert said["target"]["extra"] == {}, "a target without tables of plugins has it, too"
    assert said["model"]["file"] == "model/model.onnx"
    assert said["model"]["dimension"] == 8
    assert said["model"]["source_files"][0]["sha256"] == model.source.files[0].sha256
    assert said["runtime"]["operators"] == ['ai.onnx;13;Add{"inputs":{"0":["float"]}}', "ai.onnx;13;Gather"]
    assert said["gate"] == {"gate": "quick", "min_cosine": 0.985, "min_agreement": 0.9}
    paths = [file["path"] for file in said["files"]]
    assert paths == sorted(paths)
    program = next(file for file in said["files"] if file["path"] == "embed")
    assert program == {
        "path": "embed",
        "size": bundle.program.stat().st_size,
        "sha256": sha256_of(bundle.program),
        "mode": "0755",
        "part": "runner",
    }
    parts = {file["path"]: file["part"] for file in said["files"]}
    assert parts["lib/libonnxruntime.so.1.21.0"] == "runtime"
    assert parts["model/tokenizer.json"] == "tokenizer"
    assert parts["LICENSES/NOTICES.txt"] == "licenses"


def test_golden_vectors_are_those_of_the_shipped_model(bundle: Bundle, model: PreparedModel) -> None:
    golden = json.loads((bundle.directory / "golden.json").read_text())
    assert golden["texts"] == list(TEXTS)
    assert golden["tolerance"] == 0.99
    expected = embed_with_onnxruntime(model.file, model.source, TEXTS)
    for row, exact in zip(golden["vectors"], expected.tolist(), strict=True):
        assert row == pytest.approx(exact, abs=1e-4)


def test_same_inputs_give_the_same_bytes_anywhere(assembled: Assembled, tmp_path: Path) -> None:
    first = assembled(tmp_path / "here" / "bundle")
    before = os.umask(0o077)
    try:
        second = assembled(tmp_path / "some where else" / "another name")
    finally:
        os.umask(before)
    assert listing(first.directory) == listing(second.directory)
    assert manifests.digest(first) == manifests.digest(second)
    assert (
        stat.S_IMODE(second.directory.stat().st_mode) == 0o755 & ~0o077
    )  # what lies in it has the modes of all


def test_another_model_gives_another_digest(
    assembled: Assembled, model: PreparedModel, tmp_path: Path
) -> None:
    first = assembled(tmp_path / "first")
    second = assembled(tmp_path / "second", model=replace(model, recipe="something else"))
    assert manifests.digest(first) != manifests.digest(second)


def test_modes_are_755_and_644(assembled: Assembled, runner: RunnerArtifact, tmp_path: Path) -> None:
    odd = tmp_path / "runner"
    shutil.copytree(runner.directory, odd, symlinks=True)
    (odd / "embed").chmod(0o700)
    (odd / "_internal" / "data.bin").chmod(0o666)
    made = assembled(tmp_path / "bundle", runner=replace(runner, directory=odd))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in made.directory.rglob("*") if not path.is_symlink()}
    assert modes == {0o755, 0o644}
    assert stat.S_IMODE(made.program.stat().st_mode) == 0o755


def test_nothing_in_the_bundle_is_the_file_in_the_cache(bundle: Bundle, runtime: RuntimeArtifact) -> None:
    copied = bundle.directory / "lib" / runtime.file.name
    before = runtime.file.read_bytes()
    copied.write_bytes(b"edited")
    assert runtime.file.read_bytes() == before


def test_nothing_in_the_bundle_names_the_host(bundle: Bundle, tmp_path: Path) -> None:
    here = str(tmp_path.parent).encode()
    assert [name for name, (_, content) in listing(bundle.directory).items() if here in content] == []


def test_the_store_s_own_listing_is_not_shipped(
    assembled: Assembled, runner: RunnerArtifact, tmp_path: Path
) -> None:
    entry = tmp_path / "entry"
    shutil.copytree(runner.directory, entry, symlinks=True)
    (entry / ENTRY_FILE).write_text("{}")
    made = assembled(tmp_path / "bundle", runner=replace(runner, directory=entry))
    assert not (made.directory / ENTRY_FILE).exists()


def test_links_within_the_runner_stay_links_or_become_files_and_others_are_refused(
    assembled: Assembled, runner: RunnerArtifact, tmp_path: Path
) -> None:
    linked = tmp_path / "runner"
    shutil.copytree(runner.directory, linked, symlinks=True)
    (linked / "_internal" / "absolute").symlink_to(linked / "_internal" / "data.bin")
    made = assembled(tmp_path / "bundle", runner=replace(runner, directory=linked))
    internal = made.directory / "_internal"
    assert (internal / "data").readlink() == Path("data.bin")
    assert not (internal / "absolute").is_symlink()
    assert (internal / "absolute").read_bytes() == (internal / "data.bin").read_bytes()
    assert manifests.open_bundle(made.directory) == made
    (tmp_path / "outside.txt").write_text("from outside")
    (linked / "outside.txt").symlink_to(tmp_path / "outside.txt")
    with pytest.raises(BundleError, match=r"outside\.txt is a link to .*, which leads out of the folder"):
        assembled(tmp_path / "other", runner=replace(runner, directory=linked))
    assert not (tmp_path / "other").exists()


def test_an_existing_bundle_is_kept_without_force_and_replaced_with_it(
    assembled: Assembled, model: PreparedModel, tmp_path: Path
) -> None:
    place = tmp_path / "dist" / "bundle"
    first = assembled(place)
    with pytest.raises(OutputError, match="already exists") as refused:
        assembled(place, model=replace(model, recipe="newer"))
    assert "--force" in str(refused.value.hint)
    assert manifests.open_bundle(place) == first
    second = assembled(place, model=replace(model, recipe="newer"), force=True)
    assert manifests.open_bundle(place) == second
    assert names_in(tmp_path / "dist") == ["bundle"]


def test_force_does_not_replace_what_is_no_bundle(assembled: Assembled, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").write_bytes(b"...")
    with pytest.raises(OutputError, match="is not a bundle"):
        assembled(tmp_path / "photos", force=True)
    assert (tmp_path / "photos" / "summer.jpg").read_bytes() == b"..."
    (tmp_path / "file").write_text("a file")
    with pytest.raises(OutputError, match="not a folder"):
        assembled(tmp_path / "file", force=True)
    assert (tmp_path / "file").read_text() == "a file"


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RuntimeError("bug"), BundleError("no")])
def test_a_build_that_fails_leaves_nothing_and_keeps_the_old(
    failure: BaseException, assembled: Assembled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = assembled(tmp_path / "dist" / "bundle")

    def fail(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr("edgepack.bundles.assemble.write_manifest", fail)
    with pytest.raises(type(failure)):
        assembled(tmp_path / "dist" / "bundle", force=True)
    with pytest.raises(type(failure)):
        assembled(tmp_path / "dist" / "other")
    assert names_in(tmp_path / "dist") == ["bundle"]
    assert manifests.open_bundle(tmp_path / "dist" / "bundle") == first


def test_a_full_disk_is_said_and_leaves_nothing(
    assembled: Assembled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, place: Path) -> None:
        place.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("edgepack.bundles.assemble.shutil.copyfile", full)
    with pytest.raises(DiskFullError, match="no space left"):
        assembled(tmp_path / "dist" / "bundle")
    assert names_in(tmp_path / "dist") == []


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """``mounted(options)``: an empty file system in memory, mounted with these options."""
    places: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / "mounted"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("this user may not mount a file system")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", place], check=True)


def test_a_disk_that_is_really_full_is_said_and_left_as_it_was(
    assembled: Assembled, runner: RunnerArtifact, mounted: Callable[[str], Path], tmp_path: Path
) -> None:
    small_disk = mounted("size=64k")
    large = tmp_path / "runner"
    shutil.copytree(runner.directory, large, symlinks=True)
    (large / "_internal" / "large.bin").write_bytes(os.urandom(100_000))
    with pytest.raises(DiskFullError, match="no space left"):
        assembled(small_disk / "bundle", runner=replace(runner, directory=large))
    assert names_in(small_disk) == []


def test_an_unwritable_output_is_said(assembled: Assembled, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot write to"):
        assembled(tmp_path / "file" / "bundle")


def test_a_read_only_disk_is_said(assembled: Assembled, mounted: Callable[[str], Path]) -> None:
    with pytest.raises(OutputError, match=r"cannot write to \S+: Read-only file system"):
        assembled(mounted("ro") / "bundle")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_output_without_permission_is_said(assembled: Assembled, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(OutputError, match="cannot write to"):
        assembled(tmp_path / "locked" / "bundle")


def test_what_the_runtime_asks_of_a_processor_is_in_the_manifest(
    assembled: Assembled, runtime: RuntimeArtifact, tmp_path: Path
) -> None:
    platform = Platform(os="linux", arch="x86_64", glibc="2.99", isa=("avx2",))
    for_avx2 = replace(runtime, isa=("avx2",), requires=("avx2", "fma"))
    said = assembled(tmp_path / "bundle", platform=platform, runtime=for_avx2).manifest
    assert said["runtime"]["requires"] == ["avx2", "fma"]
    assert said["target"]["platform"]["isa"] == ["avx2"]


def test_a_program_for_a_newer_libc_is_refused(assembled: Assembled, tmp_path: Path) -> None:
    with pytest.raises(
        FloorError, match=r"embed needs glibc 2\.\d+, the target's devices have 2\.2"
    ) as refused:
        assembled(tmp_path / "dist" / "bundle", platform=Platform(os="linux", arch="x86_64", glibc="2.2"))
    assert "platform.glibc" in str(refused.value.hint)
    assert names_in(tmp_path / "dist") == []


def test_a_program_for_another_c_library_is_refused(assembled: Assembled, tmp_path: Path) -> None:
    with pytest.raises(
        FloorError, match=r"embed is linked against glibc, the target's devices have musl"
    ) as refused:
        assembled(tmp_path / "bundle", platform=Platform(os="linux", arch="x86_64", libc="musl"))
    assert '--set platform.libc="glibc"' in str(refused.value.hint)


def test_a_file_for_another_processor_is_refused(
    assembled: Assembled, runtime: RuntimeArtifact, tmp_path: Path
) -> None:
    library = tmp_path / runtime.file.name
    content = bytearray(runtime.file.read_bytes())
    content[18] = 183
    library.write_bytes(content)
    with pytest.raises(
        FloorError, match=r"lib/libonnxruntime\S+ is for aarch64, the target's devices are x86_64"
    ):
        assembled(tmp_path / "bundle", runtime=replace(runtime, library=library))


def test_a_library_that_the_bundle_lacks_is_named(
    assembled: Assembled, runtime: RuntimeArtifact, tmp_path: Path
) -> None:
    shared = ("-shared", "-fPIC", "-nostdlib")
    other = compile_c(
        "int other(void) { return 1; }", tmp_path / "libother.so.1", *shared, "-Wl,-soname,libother.so.1"
    )
    needy = "int other(void); int both(void) { return other(); }"
    library = compile_c(needy, tmp_path / "libonnxruntime.so.1.21.0", *shared, str(other))
    without = replace(runtime, library=library)
    with pytest.raises(
        BundleError, match=r"lib/libonnxruntime\S+ needs libother\.so\.1, which the bundle does not hold"
    ):
        assembled(tmp_path / "without", runtime=without)
    made = assembled(tmp_path / "with", runtime=replace(without, companions=(other,)))
    assert (made.directory / "lib" / "libother.so.1").is_file()


def test_two_parts_that_want_the_same_place_are_refused(
    assembled: Assembled, runner: RunnerArtifact, tmp_path: Path
) -> None:
    greedy = tmp_path / "runner"
    shutil.copytree(runner.directory, greedy, symlinks=True)
    (greedy / "model").mkdir()
    (greedy / "model" / "model.onnx").write_bytes(b"mine")
    with pytest.raises(BundleError, match=r"model\.onnx"):
        assembled(tmp_path / "bundle", runner=replace(runner, directory=greedy))
