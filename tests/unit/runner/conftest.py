"""The programs of bundles on a tiny real model: the one that is frozen, unfrozen, and the native one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.native import compile_program

from edgepack.runner.freeze.sample_bundle import write_golden, write_manifest, write_sample
from edgepack.runner.tokenizer.compile import compile_tokenizer

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

START = (
    "import sys; from edgepack.runner.frozen.__main__ import start\n"
    "directory = sys.argv.pop(1); sys.argv[0] = 'embed'; start(directory)"
)


def run_program(
    bundle: Path, *arguments: str | bytes, input: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run the program for a bundle folder as a process of its own."""
    return subprocess.run([*command_of(bundle), *arguments], input=input, capture_output=True, check=False)


def command_of(bundle: Path) -> list[str]:
    """How a sample bundle's program is started."""
    native = bundle / "embed"
    return [str(native)] if native.exists() else [sys.executable, "-c", START, str(bundle)]


@pytest.fixture(scope="session", params=["frozen", "native"])
def sample(request: pytest.FixtureRequest) -> Path:
    """A sound sample bundle for each of the two programs; not to be changed."""
    folder: Path = request.getfixturevalue(f"{request.param}_sample")
    return folder


@pytest.fixture(scope="session")
def frozen_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample bundle for the program in Python."""
    folder = tmp_path_factory.mktemp("sample") / "bundle"
    folder.mkdir()
    write_sample(folder)
    return with_golden(folder)


@pytest.fixture(scope="session")
def native_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample bundle for the native program, which lies in it."""
    folder = tmp_path_factory.mktemp("native")
    program = compile_program(folder / "embed")
    bundle = folder / "bundle"
    bundle.mkdir()
    write_sample(bundle)
    document = bundle / "model/tokenizer.json"
    document.with_suffix(".bin").write_bytes(compile_tokenizer(document.read_text()))
    document.unlink()
    shutil.copy(program, bundle)
    return with_golden(bundle)


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


def library_of(folder: Path) -> str:
    """Path of the library within a bundle folder."""
    return next((folder / "lib").iterdir()).relative_to(folder).as_posix()


def tokenizer_of(folder: Path) -> str:
    """Path of the tokenizer within a bundle folder."""
    return next((folder / "model").glob("tokenizer.*")).relative_to(folder).as_posix()


def vectors_of(output: bytes) -> list[list[float]]:
    """The embeddings of a JSON array or of JSON lines."""
    records = (
        json.loads(output) if output.startswith(b"[") else [json.loads(line) for line in output.splitlines()]
    )
    return [record["embedding"] for record in records]


def complaint(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    """The lines on standard error of a run that failed; there are at most two, the first says what is wrong."""
    lines = done.stderr.decode().splitlines()
    assert lines[0].startswith("error: "), lines
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), lines
    return lines
