"""`make test-gpu` where there is no GPU that works: it says what is wrong, and keeps what it learned."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_cuda import compile_driver, compile_library

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
    pack(folder / "kit.tar.xz", files, made)


def pack(archive: Path, files: dict[str, str], made: Path, *more: Path) -> None:
    with tarfile.open(archive, "w:xz") as packed:
        for path in more:
            packed.add(path, path.name)
        for name, content in files.items():
            path = made / name.replace("/", "_")
            path.write_text(content)
            path.chmod(0o755)
            packed.add(path, name)


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


def write_families(folder: Path, made: Path, *rows: dict[str, Any]) -> None:
    """A provider of three units, one without room for an empty one, and a cubin among its constants."""
    whole = "u" * 40 + "v" * 4 + "w" * 40 + "b" * 16
    provider = {
        "sha256": hashlib.sha256(whole.encode()).hexdigest(),
        "units": [[0, 40], [40, 4], [44, 40]],
        "blobs": [[84, 16]],
        "empty": b"nothing".hex(),
        "no_room": b"no".hex(),
    }
    common = {"folder": "family-0", "texts": ["a"], "vectors": [[0.6, 0.8]], "least_cosine": 0.999}
    families = {"provider": provider, "families": [{**common, **row} for row in rows]}
    # Which units are left decides what this program says.
    program = f"""#!/bin/sh
grep -q u "${{0%/*}}/lib/{PROVIDER}" || {{ echo 'error: a kernel that was pruned' >&2; exit 9; }}
if [ "$1" = --warmup ]; then echo '{{"provider": "CUDAExecutionProvider", "nodes": {{"CUDAExecutionProvider": 3}}}}'
else echo '[{{"embedding": [0.6, 0.8]}}]'; fi
"""
    pack(folder / "whole.tar.xz", {f"whole/{PROVIDER}": whole}, made)
    files = {"families.json": json.dumps(families), "families/family-0/embed": program}
    recorder = compile_library(made / "liblaunched.so", (ROOT / "benchmarks/launched.c").read_text())
    pack(folder / "families.tar.xz", files, made, recorder)


def test_families_have_a_row_each_and_the_provider_that_they_keep(checkout: Path, tmp_path: Path) -> None:
    made, kit = tmp_path / "made", tmp_path / "kit"
    made.mkdir()
    write_kit(kit, made)
    write_families(kit, made, {"name": "good", "kept": [0]})
    done = run(checkout, tmp_path, "--families", str(kit))
    assert done.returncode == 0, done.stdout + done.stderr
    write_families(kit, made, {"name": "lacks a kernel", "kept": [2]})
    done = run(checkout, tmp_path, "--families", str(kit))
    assert done.returncode == 1
    (row,) = json.loads((kit / "gpu.json").read_text())["results"]
    assert row["error"] == "batches of 1: error: a kernel that was pruned"
    assert row["with_all"] == [1.0, 1.0], "asked of the library with all units, too"
    assert "| lacks a kernel |" in (kit / "gpu.md").read_text()
    provider = (checkout / "build/gpu/providers/0" / PROVIDER).read_bytes()
    assert provider == b"nothing".ljust(40, b"\0") + b"no\0\0" + b"w" * 40 + bytes(16)


def test_families_of_another_kit(checkout: Path, tmp_path: Path) -> None:
    made, kit = tmp_path / "made", tmp_path / "kit"
    made.mkdir()
    write_kit(kit, made)
    write_families(kit, made, {"name": "any", "kept": [0]})
    pack(kit / "whole.tar.xz", {f"whole/{PROVIDER}": "another"}, made)
    done = run(checkout, tmp_path, "--families", str(kit))
    assert done.returncode == 1 and "are not of one kit" in done.stderr


RUNTIME = """
void __cudaRegisterFunction(void **unit, const char *host, char *device, const char *name) {}
int __cudaGetKernel(const void **kernel, const char *host) { return *host == 'p' ? 500 : (*kernel = host, 0); }
int __cudaLaunchKernel(void *kernel) { return kernel ? 0 : 400; }
int cudaLaunchKernel(const char *host) { return *host == 'p' ? 98 : 0; }
"""
LAUNCHES = """
#include <dlfcn.h>
int main(void) {
  dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
  void (*known)(void *, const char *, char *, const char *) = dlsym(RTLD_DEFAULT, "__cudaRegisterFunction");
  int (*get)(void **, const char *) = dlsym(RTLD_DEFAULT, "__cudaGetKernel");
  struct { unsigned x, y, z; } one = {1, 1, 1};
  int (*launch)(void *, __typeof__(one), __typeof__(one), void *, long, void *) = dlsym(RTLD_DEFAULT, "__cudaLaunchKernel");
  int (*older)(const char *, __typeof__(one), __typeof__(one), void *, long, void *) = dlsym(RTLD_DEFAULT, "cudaLaunchKernel");
  const char *names[] = {"kept", "pruned", "kept too", "pruned too", "not launched"};
  for (int i = 0; i < 5; i++) known(0, names[i], 0, names[i]);
  for (int i = 0; i < 2; i++) {
    void *kernel = 0;
    get(&kernel, names[i]);
    for (int twice = 0; twice < 2; twice++) launch(kernel, one, one, 0, 0, 0);
    older(names[i + 2], one, one, 0, 0, 0);
  }
  return 0;
}
"""


def test_the_recorder_takes_down_what_is_launched_and_what_is_refused(tmp_path: Path) -> None:
    recorder = compile_library(tmp_path / "recorder.so", (ROOT / "benchmarks/launched.c").read_text())
    compile_library(tmp_path / "libcudart.so.13", RUNTIME)
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", "-x", "c", "-", "-o", tmp_path / "program"],
        input=LAUNCHES,
        text=True,
        check=True,
    )
    record = tmp_path / "record"
    environment = {
        "LD_PRELOAD": str(recorder),
        "LD_LIBRARY_PATH": str(tmp_path),
        "LAUNCHED_KERNELS": str(record),
    }
    subprocess.run([tmp_path / "program"], check=True, env=environment)
    assert record.read_text().splitlines() == [
        "0 kept",
        "0 kept too",
        "500 pruned",
        "400 pruned",
        "98 pruned too",
    ]
