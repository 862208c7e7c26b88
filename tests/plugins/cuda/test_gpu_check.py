"""`make test-gpu` where there is no GPU that works: it says what is wrong, and keeps what it learned."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_cuda import compile_driver

from edgepack_cuda.runtime import PROVIDER

pytestmark = pytest.mark.tools("gcc", "python")
ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "#!/bin/sh\necho said $1\n[ $1 = --info ] || { echo 'error: nothing here runs' >&2; exit 9; }\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with just what the check takes of the repository."""
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(ROOT / "benchmarks" / "gpu_check.py", tmp_path / "benchmarks")
    return tmp_path


def write_kit(folder: Path, made: Path) -> None:
    """A kit as `make gpu-kit` packs it, of things that do not work."""
    provider = {
        "name": "CUDAExecutionProvider",
        "append": "cuda",
        "library": "",
        "options": {"device_id": "0", "sdpa_kernel": "18"},
        "session": {},
        "optimization": "none",
        "capabilities": ["9.0a"],
        "cuda": "13.0",
        "libraries": [],
        "batch_size": 32,
    }
    manifest = {"model": {"file": "model/model.onnx"}, "runtime": {"provider": provider}}
    facts = {
        "broken": [[8, "00" * 8]],
        "empty": [[16, "ff" * 4], [32, "ff"]],
        "texts": ["a cat"],
        "vectors": [[1.0]],
    }
    files = {
        "facts.json": json.dumps(facts),
        "bundle/manifest.json": json.dumps(manifest),
        "bundle/embed": PROGRAM,
        "bundle/lib/libonnxruntime.so.9": "no library",
        f"bundle/lib/{PROVIDER}": "p" * 100,
    }
    folder.mkdir()
    with tarfile.open(folder / "kit.tar.xz", "w:xz") as archive:
        for name, content in files.items():
            path = made / name.replace("/", "_")
            path.write_text(content)
            path.chmod(0o755)
            archive.add(path, name)


def run(checkout: Path, driver: Path, *arguments: str, **said: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "benchmarks" / "gpu_check.py"), *arguments]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), **said}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_no_kit(checkout: Path, tmp_path: Path) -> None:
    done = run(checkout, tmp_path, str(tmp_path / "kit"))
    assert done.returncode == 1
    assert "there is no kit.tar.xz in" in done.stderr
    assert "make gpu-kit" in done.stderr


@pytest.mark.slow
def test_what_fails_is_written_down(checkout: Path, tmp_path: Path) -> None:
    made, driver, results = tmp_path / "made", tmp_path / "driver", tmp_path / "results"
    made.mkdir()
    write_kit(tmp_path / "kit", made)
    compile_driver(driver)
    done = run(checkout, driver, str(tmp_path / "kit"), str(results), FAKE_CUDA_CAPABILITY="90")
    assert done.returncode == 1, done.stderr
    said: dict[str, Any] = json.loads((results / "gpu.json").read_text())
    assert "libcuda.so.1: 13000" in said["libraries"]
    checks = [each for each in said["results"] if "folder" in each]
    assert {each["folder"] for each in checks} == {"lib", "broken", "empty"}
    assert all(each["error"] == "error: nothing here runs" for each in checks), checks
    assert not any(each["good"] for each in checks)
    programs = {each["program"]: each for each in said["results"] if "program" in each}
    assert programs["--info"]["good"]
    assert programs["--bench"]["error"] == "error: nothing here runs"
    table = (results / "gpu.md").read_text()
    assert "| broken | LAZY | 1 |" in table
    assert table.count("FAILED") == len(checks) + 3
    assert said["ratio"] is None


@pytest.mark.slow
def test_the_forms_of_the_library_are_what_the_kit_says(checkout: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    write_kit(tmp_path / "kit", made)
    run(checkout, tmp_path, str(tmp_path / "kit"), FAKE_CUDA_INIT="100")
    place = checkout / "build" / "gpu"
    assert (place / "bundle/lib" / PROVIDER).read_text() == "p" * 100
    assert (place / "broken" / PROVIDER).read_bytes() == b"p" * 8 + bytes(8) + b"p" * 84
    assert (place / "empty" / PROVIDER).read_bytes() == (
        b"p" * 16 + b"\xff" * 4 + b"p" * 12 + b"\xff" + b"p" * 67
    )
    for name in ("broken", "empty"):
        assert (place / name / "libonnxruntime.so.9").exists()
    assert (tmp_path / "kit" / "gpu.md").exists(), "beside the kit, where nothing else is said"
