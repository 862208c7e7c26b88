"""Licences: a text for everything that is inside, and an index that leads to it."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgepack.bundles.components import components_of
from edgepack.bundles.notices import write_notices as write_texts
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource
from edgepack.records.runtime import RuntimeArtifact

pytestmark = pytest.mark.tools("gcc")
REPOSITORY = Path(__file__).parents[3]


def write_notices(
    folder: Path, *, source: ModelSource, runtime: RuntimeArtifact, runner: RunnerArtifact
) -> None:
    write_texts(folder, components_of(source, runtime, runner))


def index_of(folder: Path) -> dict[str, tuple[str, str]]:
    """Component → version and licence file, as NOTICES.txt says it."""
    lines = (folder / "NOTICES.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line.endswith(".txt")]
    return {name: (version, file) for name, version, file in rows}


def test_every_component_has_a_licence_text(bundle: Bundle) -> None:
    folder = bundle.directory / "LICENSES"
    index = index_of(folder)
    assert set(index) == {"edgepack", "eigen", "onnxruntime", "python", "tiny-model"}
    assert index["onnxruntime"] == ("1.21.0", "onnxruntime.txt")
    assert index["python"][0] == "3.11.7"
    assert index["eigen"][0] == "unknown"
    for _, file in index.values():
        assert (folder / file).stat().st_size > 0
    assert (folder / "eigen.txt").read_text() == "MPL-2.0\n"


def test_edgepack_s_own_text_is_the_repository_s(bundle: Bundle) -> None:
    own = (bundle.directory / "LICENSES" / "edgepack.txt").read_text()
    assert own == (REPOSITORY / "LICENSE").read_text()


@pytest.mark.parametrize(
    ("license", "words"),
    [
        ("apache-2.0", "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"),
        ("Apache-2.0", "Version 2.0, January 2004"),
        ("mit", "Permission is hereby granted, free of charge"),
        ("cc-by-nc-4.0", "cc-by-nc-4.0; the text did not come with the model"),
        (None, "ask its authors"),
    ],
)
def test_the_model_s_licence_is_there_or_said_to_be_missing(
    source: ModelSource,
    runtime: RuntimeArtifact,
    runner: RunnerArtifact,
    tmp_path: Path,
    license: str | None,
    words: str,
) -> None:
    write_notices(tmp_path / "out", source=replace(source, license=license), runtime=runtime, runner=runner)
    text = (tmp_path / "out" / "tiny-model.txt").read_text()
    assert "tiny-org/tiny-model" in text
    assert words in text


def test_a_licence_that_came_with_the_model_is_taken(
    source: ModelSource, runtime: RuntimeArtifact, runner: RunnerArtifact, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "LICENSE.md").write_text("Do what you like, but smile.\n")
    given = replace(source, directory=tmp_path / "model")
    write_notices(tmp_path / "out", source=given, runtime=runtime, runner=runner)
    assert "but smile" in (tmp_path / "out" / "tiny-model.txt").read_text()


def test_two_texts_of_one_component_are_both_kept(
    source: ModelSource, runtime: RuntimeArtifact, runner: RunnerArtifact, tmp_path: Path
) -> None:
    (tmp_path / "Eigen.txt").write_text("a second text\n")
    given = replace(runner, licenses=(tmp_path / "Eigen.txt", *runtime.licenses))
    write_notices(tmp_path / "out", source=source, runtime=runtime, runner=given)
    text = (tmp_path / "out" / "eigen.txt").read_text()
    assert text.count("MPL-2.0") == 1
    assert text.count("a second text") == 1
    assert not (tmp_path / "out" / "Eigen.txt").exists()


def test_versions_are_taken_from_the_text_s_name_or_from_the_artefact(
    source: ModelSource, runtime: RuntimeArtifact, runner: RunnerArtifact, tmp_path: Path
) -> None:
    names = ("re2-2024-07-02", "onnxruntime-1.21.0", "libc++-LLVM", "libz", "tokenizers")
    texts = []
    for name in names:
        texts.append(tmp_path / f"{name}.txt")
        texts[-1].write_text(f"{name}\n")
    given = replace(runner, licenses=tuple(texts[3:]), versions={"zlib": "1.2.13", "tokenizers": "0.23.3"})
    write_notices(
        tmp_path / "out",
        source=source,
        runtime=replace(runtime, licenses=tuple(texts[:3])),
        runner=given,
    )
    index = index_of(tmp_path / "out")
    assert {
        name: version for name, (version, _) in index.items() if name not in ("edgepack", "tiny-model")
    } == {
        "re2": "2024-07-02",
        "onnxruntime": "1.21.0",
        "libc++-LLVM": "unknown",
        "libz": "1.2.13",
        "tokenizers": "0.23.3",
    }
    assert (tmp_path / "out" / "re2.txt").read_text() == "re2-2024-07-02\n"


def test_a_runtime_without_licence_texts_is_still_listed(
    source: ModelSource, runtime: RuntimeArtifact, runner: RunnerArtifact, tmp_path: Path
) -> None:
    write_notices(tmp_path / "out", source=source, runtime=replace(runtime, licenses=()), runner=runner)
    assert index_of(tmp_path / "out")["onnxruntime"] == ("1.21.0", "onnxruntime.txt")
    assert "did not come with the library" in (tmp_path / "out" / "onnxruntime.txt").read_text()
