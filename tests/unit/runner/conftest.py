"""The program of bundles on a tiny real model: on Linux, and that for Windows, which is run under wine and not on Windows."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.native import compile_features, compile_program
from tests.support.once import made_once
from tests.support.sample_program import Run, is_for_windows, library_of, run_program, write_compiled_sample
from tests.support.windows_sample import (
    UNDER_WINE,
    build_program,
    lay_program,
    why_not_under_wine,
    write_windows_sample,
)
from tests.support.wine import required_wine

from edgepack.context import BuildContext
from edgepack.runner.freeze.sample_bundle import write_golden, write_manifest


@pytest.fixture(scope="session", params=["linux", pytest.param("windows", marks=UNDER_WINE)])
def sample(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_context: BuildContext
) -> Path:
    """A sound sample bundle; not to be changed. A test that has it is one of each system's program."""
    if request.param == "linux":
        made: Path = request.getfixturevalue("native_sample")
        return made
    required_wine()

    def make(folder: Path) -> None:
        write_windows_sample(folder / "bundle", context=shared_context)

    return made_once(tmp_path_factory, "windows-sample", make) / "bundle"


@pytest.fixture(autouse=True)
def under_wine(request: pytest.FixtureRequest) -> None:
    """Skips what Windows or wine has not, with the reason."""
    if (reason := why_not_under_wine(request.node)) is not None:
        pytest.skip(reason)


Programs = Callable[..., Path]


@pytest.fixture(scope="session")
def program_with(
    sample: Path, tmp_path_factory: pytest.TempPathFactory, shared_context: BuildContext
) -> Programs:
    """The program for the sample's system with other features than the sample's."""

    def make(*features: str) -> Path:
        name = "embed.exe" if is_for_windows(sample) else "embed"

        def write(folder: Path) -> None:
            if is_for_windows(sample):
                lay_program(folder, build_program(shared_context, *features))
            else:
                compile_features(folder / name, *features)

        return made_once(tmp_path_factory, "-".join((name, *features)), write) / name

    return make


@pytest.fixture(scope="session")
def native_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample bundle for the native program, which lies in it."""
    return made_once(tmp_path_factory, "native-sample", write_native_sample) / "bundle"


def write_native_sample(folder: Path) -> None:
    program = compile_program(folder / "embed")
    bundle = folder / "bundle"
    bundle.mkdir()
    write_compiled_sample(bundle)
    shutil.copy(program, bundle)
    with_golden(bundle)


def with_golden(folder: Path) -> Path:
    """The bundle with the vectors that its own program makes."""
    write_manifest(folder, library=library_of(folder))
    texts = ("a cat", "the kitten sat", "")
    done = run_program(folder, *texts)
    vectors = [record["embedding"] for record in json.loads(done.stdout)]
    write_golden(folder, dict(zip(texts, vectors, strict=True)))
    write_manifest(folder, library=library_of(folder))
    return folder


@pytest.fixture
def run(sample: Path) -> Run:
    """Run the program of the sample bundle."""

    def run(*arguments: str | bytes, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return run_program(sample, *arguments, input=input)

    return run


@pytest.fixture
def copy(sample: Path, tmp_path: Path) -> Path:
    """A sample bundle that a test may damage; its big library is a link."""
    folder = tmp_path / "bundle"
    for source in sample.rglob("*"):
        target = folder / source.relative_to(sample)
        if source.is_dir():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.parent.name == "lib":
            target.symlink_to(source)
        else:
            shutil.copy(source, target)
    return folder
