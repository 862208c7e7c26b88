"""The frozen program of a bundle for a GPU, with a driver and an execution provider that are made up: what it says, does and keeps.

The driver is ``tests.support.fake_cuda``'s, ONNX Runtime is the bundle's own behind ``fake_onnxruntime.c``; vectors are real.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_cuda import compile_driver, compile_library

from edgepack.records.bundle import Bundle

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]
SOURCE = Path(__file__).parents[1] / "support" / "fake_onnxruntime.c"
NAME = "NvTensorRTRTXExecutionProvider"
PROVIDER: dict[str, Any] = {
    "name": NAME,
    "append": "plugin",
    "library": "lib/libplugin.so",
    "options": {"nv_runtime_cache_path": "{cache}/tensorrt-rtx-1.7.1-abc", "nv_profile_max_shapes": "x:4x16"},
    "session": {},
    "optimization": "all",
    "capabilities": ["8.6", "8.9"],
    "remedy": "take a bundle of target linux-x64-cuda",
    "cuda": "13.0",
    "libraries": [],
    "system": ["libcuda.so.1"],
    "batch_size": 2,
    "largest_batch": 4,
}
GPU = "Imaginary GPU, compute capability 8.6"


@dataclass(frozen=True, kw_only=True)
class Device:
    """A bundle on a machine whose GPU is made up; ``home`` has the user's cache."""

    bundle: Path
    driver: Path
    home: Path

    def run(self, *arguments: str, said: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        environment = {"LD_LIBRARY_PATH": str(self.driver), "XDG_CACHE_HOME": str(self.home), **(said or {})}
        return subprocess.run(
            [self.bundle / "embed", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ["PATH"], **environment},
        )

    @property
    def cache(self) -> Path:
        return self.home / "edgepack/tensorrt-rtx-1.7.1-abc"


@pytest.fixture(scope="module")
def gpu_bundle(frozen_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The frozen program's bundle, for a GPU."""
    folder = Path(
        shutil.copytree(frozen_bundle.directory, tmp_path_factory.mktemp("gpu") / "bundle", symlinks=True)
    )
    library = folder / frozen_bundle.manifest["runtime"]["library"]
    library.rename(library.with_name("libreal.so"))
    compile_library(library, SOURCE.read_text(), "-ldl")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["runtime"]["provider"] = PROVIDER
    for entry in manifest["files"]:
        if entry["path"] == manifest["runtime"]["library"]:
            entry |= described(library)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def described(file: Path) -> dict[str, Any]:
    import hashlib

    content = file.read_bytes()
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


@pytest.fixture
def device(gpu_bundle: Path, tmp_path: Path) -> Device:
    driver = compile_driver(tmp_path / "driver").parent
    return Device(bundle=gpu_bundle, driver=driver, home=tmp_path / "home")


def test_it_says_which_provider_really_runs(device: Device, tmp_path: Path) -> None:
    done = device.run("--self-test", said={"FAKE_ORT_OPTIONS": str(tmp_path / "options")})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"self-test passed on {NAME} ({GPU}): ")
    options = (tmp_path / "options").read_text().splitlines()
    assert options == [f"nv_runtime_cache_path={device.cache}", "nv_profile_max_shapes=x:4x16"]
    said = json.loads(device.run("--self-test", "--json").stdout)
    assert (said["provider"], said["device"], said["nodes"]) == (NAME, GPU, {NAME: 1})


def test_at_start_it_says_what_computes(device: Device) -> None:
    line = f"computing on {NAME} ({GPU}), 1 of 1 nodes"
    served = device.run("serve", "--check", "--port=0")
    assert served.returncode == 0, served.stderr
    assert served.stderr.splitlines()[0] == line
    assert (device.cache / "edgepack").is_file(), "what was compiled is kept when the server ends"
    assert device.run("a cat").stderr == "", "nobody looks"
    master, terminal = os.openpty()
    environment = {"LD_LIBRARY_PATH": str(device.driver), "XDG_CACHE_HOME": str(device.home)}
    subprocess.run(
        [device.bundle / "embed", "a cat"],
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        check=True,
        env=environment,
    )
    assert os.read(master, 1000).decode().splitlines() == [line]


def test_what_was_compiled_is_kept_without_a_warm_up(device: Device) -> None:
    assert device.run("a cat").returncode == 0
    assert (device.cache / "edgepack").read_text() == "compiled kernels"


@pytest.mark.slow
def test_a_warm_up_runs_every_shape_compares_and_keeps(device: Device) -> None:
    done = device.run("--warmup", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {batch for batch, _ in said["shapes"]} == {1, 2, 4}, (
        "one, as many as usual, as many as the engine takes"
    )
    assert len(said["round_seconds"]) >= 3, "what is compiled in the background is waited for"
    assert said["min_cosine"] > 0.9999
    assert said["cache"] == [{"folder": str(device.cache), "files": 1, "bytes": 16}]
    text = device.run("--warmup").stdout
    assert f"warmed up on {NAME} ({GPU})" in text
    assert f"kept in {device.cache}: 1 files" in text


def test_a_cache_of_another_version_is_left_alone(device: Device) -> None:
    old = device.home / "edgepack/tensorrt-rtx-1.6.0-abc"
    old.mkdir(parents=True)
    (old / "edgepack").write_text("of 1.6.0")
    assert device.run("a cat").returncode == 0
    assert (old / "edgepack").read_text() == "of 1.6.0"
    assert (device.cache / "edgepack").is_file()


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null"])
def test_where_nothing_can_be_kept_it_warns_and_computes(device: Device, home: str, tmp_path: Path) -> None:
    said = {"XDG_CACHE_HOME": home, "FAKE_ORT_OPTIONS": str(tmp_path / "options")}
    done = device.run("--self-test", said=said)
    assert done.returncode == 0
    warning, hint = done.stderr.splitlines()
    assert warning.startswith(f"warning: the provider's cache {home}/edgepack cannot be made: ")
    assert warning.endswith("; what the GPU needs is made anew at each start")
    assert hint == "hint: name a folder that can be written in EMBED_CACHE"
    assert "passed on Nv" in done.stdout
    assert "nv_runtime_cache_path" not in (tmp_path / "options").read_text()


def test_a_cache_that_was_named_and_cannot_be_is_an_error(device: Device) -> None:
    done = device.run("a cat", said={"EMBED_CACHE": "/proc/nowhere"})
    assert done.returncode == 9
    assert "the provider's cache /proc/nowhere" in done.stderr


FAILURES = [
    ({"LD_LIBRARY_PATH": ""}, "there is no NVIDIA driver here", "install NVIDIA's driver"),
    (
        {"FAKE_CUDA_VERSION": "12080"},
        "supports CUDA up to 12.8, the bundle requires 13.0",
        "driver 580 or newer",
    ),
    ({"FAKE_CUDA_COUNT": "0"}, "there is no NVIDIA GPU here", "CUDA_VISIBLE_DEVICES"),
    ({"FAKE_CUDA_INIT": "803"}, "do not match", "restart after the driver's update"),
    (
        {"FAKE_CUDA_CAPABILITY": "90"},
        "Imaginary GPU has compute capability 9.0; the bundle has code for 8.6, 8.9 only",
        "take a bundle of target linux-x64-cuda",
    ),
    (
        {"FAKE_ORT_DEVICES": "0"},
        f"{NAME} finds no device here that it can use",
        "/sys/bus/pci/devices",
    ),
    ({"FAKE_ORT_NODES": "0"}, f"ONNX Runtime gave {NAME} not one node of the model", "report it with --info"),
    (
        {"FAKE_ORT_SESSION": "TensorRT EP could not deserialize engine from cache: /b/model/model.engine"},
        "TensorRT does not take the engine of this bundle: it is damaged, or of another version of TensorRT",
        "--self-test says whether a file is damaged",
    ),
    (
        {"FAKE_ORT_SESSION": "TensorRT EP can't find engine cache: /b/model.engine. Please make sure"},
        "the engine model.engine is missing from the bundle",
        "copy the whole bundle folder again",
    ),
    (
        {"FAKE_ORT_SESSION": "NvTensorRTRTX EP could not build execution context for fused node: edgepack"},
        "TensorRT cannot set up the engine on this GPU",
        "nvidia-smi says who else uses the GPU",
    ),
    (
        {"FAKE_ORT_SESSION": "CUDA Error: out of memory (error code: 2)"},
        "the GPU is out of memory",
        "a smaller --batch-size",
    ),
    (
        {"FAKE_ORT_RUN": "Failed to allocate device memory of size 104857600"},
        "the GPU is out of memory",
        "a smaller --batch-size",
    ),
    (
        {"FAKE_ORT_SESSION": "what nobody foresaw"},
        "the GPU does not run the model: what nobody foresaw",
        "--self-test",
    ),
]
"""What is said, the sentence, and what to do; the messages are those of the provider's 0.5.0 library."""


@pytest.mark.sample(6)
@pytest.mark.parametrize(("said", "message", "hint"), FAILURES, ids=[failure[1][:40] for failure in FAILURES])
def test_a_failure_is_a_sentence_and_what_to_do(
    device: Device, said: dict[str, str], message: str, hint: str
) -> None:
    done = device.run("a cat", said=said)
    assert done.returncode == 9
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert second.startswith("hint: ")
    assert hint in second
    allowed = device.run("--allow-cpu", "a cat", said=said)
    if "FAKE_ORT_RUN" in said:
        assert allowed.returncode == 9, "the session was there; what a run needs is another matter"
        return
    assert allowed.returncode == 0, "the processor computes where it is allowed aloud"
    assert allowed.stderr.startswith("warning: ")
    assert message in allowed.stderr
    assert allowed.stderr.rstrip().endswith("computing on the processor")
    assert len(json.loads(allowed.stdout)[0]["embedding"]) == 384
