"""npm packages: what npm asks of the file; its bytes are as few as zlib can."""

import gzip
import json
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.errors import UsageError
from edgepack.files.pack import TarEntry, write_tgz
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack_npm.package import create_packager

pytestmark = pytest.mark.tools(may=("gcc",))


def target(version: str = "1.2.0", *, os: str = "web", copies: bool = False, **own: Any) -> Target:
    return Target(
        name="tiny",
        summary="",
        builder="web",
        platform=Platform(os=os, arch="wasm32"),
        model=ModelOptions(),
        version=version,
        options={"copies": copies},
        extra={"npm": own} if own else {},
    )


@pytest.fixture
def page(assembled: Callable[..., Bundle], runner: RunnerArtifact, tmp_path: Path) -> Bundle:
    """A bundle with a module, as far as its name goes."""
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "embed.mjs").write_text("export {};\n")
    (folder / "embed").write_bytes((runner.directory / "embed").read_bytes())
    (folder / "embed").chmod(0o755)
    return assembled(tmp_path / "dist/page", runner=replace(runner, directory=folder))


def made(bundle: Bundle, folder: Path, context: HostContext, **own: Any) -> Path:
    packager = create_packager(target(**own))
    file = folder / packager.file_name(bundle)
    packager.pack(bundle, file, context=context)
    return file


def test_the_package_holds_the_bundle_as_it_is(page: Bundle, context: HostContext, tmp_path: Path) -> None:
    file = made(page, tmp_path, context)
    assert file.name == "tiny-model-1.2.0.tgz"
    assert digest(open_bundle(unpack_bundle(file, tmp_path / "inside"))) == digest(page)
    with tarfile.open(file) as tar:
        members = {each.name: each for each in tar}
    assert {name.split("/")[0] for name in members} == {"package"}
    assert members["package/bundle/embed"].mode == 0o755
    assert all(each.isreg() for each in members.values())


def test_the_same_bundle_gives_the_same_package(page: Bundle, context: HostContext, tmp_path: Path) -> None:
    first = made(page, tmp_path, context).read_bytes()
    assert made(page, tmp_path, context).read_bytes() == first


def test_what_package_json_names_is_there(page: Bundle, context: HostContext, tmp_path: Path) -> None:
    with tarfile.open(made(page, tmp_path, context, name="@acme/embeddings")) as tar:
        names = set(tar.getnames())
        described = json.load(tar.extractfile("package/package.json") or pytest.fail())
        readme = (tar.extractfile("package/README.md") or pytest.fail()).read().decode()
    assert (described["name"], described["version"]) == ("@acme/embeddings", "1.2.0")
    assert 'from "@acme/embeddings"' in readme
    assert "dependencies" not in described
    assert "scripts" not in described
    licence = described["license"].removeprefix("SEE LICENSE IN ")
    for path in (licence, described["types"], *described["exports"]["."].values()):
        assert f"package/{path.removeprefix('./')}" in names


@pytest.mark.parametrize(
    ("kind", "threads", "there"),
    [("wordpiece", False, True), ("huggingface", False, False), ("wordpiece", True, False)],
)
def test_workerd_gets_all_files_as_modules(
    assembled: Callable[..., Bundle],
    runner: RunnerArtifact,
    context: HostContext,
    tmp_path: Path,
    kind: str,
    threads: bool,
    there: bool,
) -> None:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    assets = {
        name: {"path": f"assets/{name}"} for name in ("m-1.bin", "m-2.bin", "o.mjs", "o.wasm", "t.table")
    }
    document = {
        "model": {"parts": [assets["m-1.bin"], assets["m-2.bin"]], "dimension": 8},
        "runtimes": [{"glue": assets["o.mjs"], "wasm": assets["o.wasm"], "threads": threads}],
        "tokenizer": {"kind": kind, "table": assets["t.table"]},
    }
    (folder / "bundle.json").write_text(json.dumps(document))
    for asset in assets.values():
        (folder / asset["path"]).write_text(asset["path"])
    (folder / "embed.mjs").touch()
    shutil.copy(runner.directory / "embed", folder)
    page = assembled(tmp_path / "dist/page", runner=replace(runner, directory=folder))
    with tarfile.open(made(page, tmp_path, context)) as tar:
        names = set(tar.getnames())
        described = json.load(tar.extractfile("package/package.json") or pytest.fail())
        assert ("workerd" in described["exports"]["."]) == there
        # The first condition that holds is taken.
        assert not there or next(iter(described["exports"]["."])) == "workerd"
        assert ("package/workerd.mjs" in names) == there
        if there:
            module = (tar.extractfile("package/workerd.mjs") or pytest.fail()).read().decode()
            imported = re.findall(r'from "\./([^"]+)"', module)
            assert {f"package/{name}" for name in imported} <= names
            assert {name.rpartition("/")[2] for name in imported} == {
                *("inline.mjs", "tokenizer.bin", "m-1.bin", "m-2.bin", "o.mjs", "o.wasm")
            }
            assert "{{" not in module
            assert '"parts"' not in module


def test_a_scope_is_in_the_file_s_name(page: Bundle, context: HostContext, tmp_path: Path) -> None:
    assert made(page, tmp_path, context, name="@acme/it").name == "acme-it-1.2.0.tgz"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (target(os="linux"), "a bundle for linux by builder web cannot be packed as an npm package"),
        (target(copies=True), "must not contain compressed copies"),
        (target("1.0"), "'1.0' is not a valid version of an npm package"),
        (target("v1.0.0"), "'v1.0.0' is not a valid version"),
        (target(name="Big Letters"), r"\[x-npm\] says 'Big Letters'"),
        (target(scope="@acme"), r"\[x-npm\] says scope"),
        (target(name=5), r"\[x-npm\] says 5"),
    ],
)
def test_what_cannot_be_an_npm_package_is_said_of_the_target(wanted: Target, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        create_packager(wanted)


def test_a_bundle_without_a_module_is_refused(native: Bundle, context: HostContext, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a bundle with embed\.mjs"):
        made(native, tmp_path, context)


def test_weights_are_smaller_than_gzip_makes_them_and_text_is_not_larger(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(scale=3, size=1 << 20).astype(np.int8).tobytes()
    text = b"the same words again and again\n" * 10_000
    for content, factor in ((weights, 0.97), (text, 1.5)):
        file = tmp_path / "x.tgz"
        with file.open("wb") as out:
            write_tgz(out, [TarEntry(name="package/x", source=content)])
        assert file.stat().st_size < factor * len(gzip.compress(content, 9))
        with tarfile.open(file) as tar:
            assert (tar.extractfile("package/x") or pytest.fail()).read() == content
