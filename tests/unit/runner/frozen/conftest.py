"""The thin Python of the frozen program, unfrozen, around the C++ program in a library."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.native import compile_together
from tests.support.once import made_once
from tests.support.sample_program import library_of

from edgepack.runner.freeze.runner import LIBRARY, sources_of
from edgepack.runner.freeze.sample_bundle import write_manifest, write_sample
from edgepack.runner.native.sources import ort_encoder, program_sources

Thin = Callable[..., "subprocess.CompletedProcess[bytes]"]
START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); sys.argv = [sys.argv[1] + '/embed', *sys.argv[2:]]\n"
    "from edgepack.runner.frozen.__main__ import start\nstart(sys.argv[0][:-6])"
)


def compile_library(folder: Path) -> None:
    """Of models that make vectors, and that rank."""
    for name, features in (("vectors", ()), ("scores", ("scores",))):
        sources = program_sources(ort_encoder("loaded"), (*features, "host", "serve"))
        del sources["program/main.cc"]
        compile_together(sources, folder / f"{name}.so", "-O0", "-shared", "-fPIC")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "thin-libraries", compile_library)


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is frozen, laid out."""
    folder = tmp_path_factory.mktemp("python")
    for place, content in sources_of(compiled=False).items():
        if place.startswith("edgepack/"):
            (folder / place).parent.mkdir(exist_ok=True, parents=True)
            (folder / place).write_bytes(content)
    return folder


@pytest.fixture
def bundle(libraries: Path, tmp_path: Path) -> Path:
    """A bundle with tokenizer.json."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    write_sample(folder)
    (folder / LIBRARY).parent.mkdir()
    shutil.copy(libraries / "vectors.so", folder / LIBRARY)
    write_manifest(folder, library=library_of(folder))
    return folder


@pytest.fixture
def thin(bundle: Path, python: Path) -> Thin:
    """Run the program of the bundle."""

    def run(*arguments: str, input: str = "") -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", START, str(python), str(bundle), *arguments]
        return subprocess.run(command, input=input.encode(), capture_output=True, check=False)

    return run


def with_module(bundle: Path, text: str) -> None:
    """The bundle with a user's own module."""
    (bundle / "module").mkdir(exist_ok=True)
    (bundle / "module/hooks.py").write_text(text)
    manifest = json.loads((bundle / "manifest.json").read_text())
    write_manifest(bundle, library=manifest["runtime"]["library"], module="module/hooks.py")
    made = json.loads((bundle / "manifest.json").read_text())
    # A module is of what an embedder's id is made of.
    made["model"]["embedder"] = hashlib.sha256(text.encode()).hexdigest()[:32]
    (bundle / "manifest.json").write_text(json.dumps(made))
