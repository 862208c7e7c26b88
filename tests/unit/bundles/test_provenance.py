"""Provenance: what in-toto and SLSA say a statement is, with the digests of what is there."""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.house import ROOT

from edgepack.bundles.provenance import BUILD_TYPE, BUILDER, dependencies_of, statement
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.records.runtime import RuntimeArtifact, SourceFile
from edgepack.records.target import Target

pytestmark = pytest.mark.tools("gcc")

ARCHIVE = "tiny.tar.zst"

Make = Callable[..., dict[str, Any]]


@pytest.fixture
def made(
    bundle: Bundle, target: Target, source: ModelSource, runtime: RuntimeArtifact, tmp_path: Path
) -> Make:
    (tmp_path / ARCHIVE).write_bytes(b"packed")
    eigen = SourceFile(component="eigen", version="5.0.1", file="eigen.tar.bz2", sha256="1" * 64)

    def make(*settings: str) -> dict[str, Any]:
        return statement(
            bundle,
            replace(target, settings=settings),
            subjects={ARCHIVE: tmp_path / ARCHIVE},
            dependencies=dependencies_of(source, replace(runtime, source_files=(eigen,))),
        )

    return make


def test_its_subjects_are_the_files_that_are_sent(made: Make, bundle: Bundle) -> None:
    digests = {each["name"]: each["digest"]["sha256"] for each in made()["subject"]}
    manifest = (bundle.directory / "manifest.json").read_bytes()
    assert digests == {
        ARCHIVE: hashlib.sha256(b"packed").hexdigest(),
        f"{bundle.name}/manifest.json": hashlib.sha256(manifest).hexdigest(),
    }


def test_it_names_what_went_in(made: Make, source: ModelSource) -> None:
    found = {each["name"]: each for each in made()["predicate"]["buildDefinition"]["resolvedDependencies"]}
    for file in source.files:
        assert found[file.path]["digest"] == {"sha256": file.sha256}
        assert found[file.path]["uri"] == source.origin
    assert found["eigen 5.0.1"]["digest"] == {"sha256": "1" * 64}
    for name in ("ziglang", "pyinstaller", "filelock", "onnx", "numpy", "zstandard"):
        version = importlib.metadata.version(name)
        assert found[f"{name} {version}"]["uri"] == f"pkg:pypi/{name}@{version}"
    assert not any(name.startswith(("pytest ", "mypy ", "edgepack ")) for name in found)


def test_a_package_s_digest_is_that_of_its_files(made: Make) -> None:
    name = f"filelock {importlib.metadata.version('filelock')}"
    dependencies = made()["predicate"]["buildDefinition"]["resolvedDependencies"]
    digest = next(each["digest"]["dirHash"] for each in dependencies if each["name"] == name)
    files = importlib.metadata.files("filelock") or []
    lines = []
    for file in sorted(files, key=lambda each: each.as_posix()):
        if file.suffix != ".pyc" and file.name not in ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json"):
            content = Path(str(file.locate())).read_bytes()
            lines.append(f"{hashlib.sha256(content).hexdigest()}  {file.as_posix()}\n")
    assert digest == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_it_says_the_same_twice_and_no_folder_of_the_builder_s(made: Make, tmp_path: Path) -> None:
    settings = ("model.calibration=/home/me/secret/texts.txt", "model.min_cosine=0.99")
    said = made(*settings)
    assert said == made(*settings)
    parameters = said["predicate"]["buildDefinition"]["externalParameters"]
    assert parameters["settings"] == ["model.calibration=texts.txt", "model.min_cosine=0.99"]
    assert str(tmp_path) not in json.dumps(said)


@pytest.mark.parametrize("address", [BUILD_TYPE, BUILDER])
def test_what_it_refers_to_is_documented(address: str) -> None:
    page, _, anchor = address.partition("/main/")[2].partition("#")
    headings = [
        "".join(c for c in line.lstrip("# ").lower().replace(" ", "-") if c.isalnum() or c == "-")
        for line in (ROOT / page).read_text().splitlines()
        if line.startswith("#")
    ]
    assert anchor in headings
