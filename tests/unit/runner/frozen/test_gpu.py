"""Bundles for a GPU on devices whose GPU, driver or libraries will not do: a sentence, what to do, and exit code 9."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_cuda import compile_driver, compile_library
from tests.support.sample_program import command_of, complaint, vectors_of

from edgepack.runner.frozen.base.bundle import Bundle
from edgepack.runner.frozen.base.errors import DeviceError, UsageError
from edgepack.runner.frozen.gpu.device import runs_on
from edgepack.runner.frozen.gpu.provider import Provider, why_not_run
from edgepack.runner.frozen.model.embedder import Embedder
from edgepack.runner.frozen.model.loaded import LoadedModel

pytestmark = pytest.mark.tools("gcc", "python")

PROVIDER: dict[str, Any] = {
    "name": "CUDAExecutionProvider",
    "append": "cuda",
    "library": "",
    "options": {"device_id": "0"},
    "session": {},
    "optimization": "none",
    "capabilities": ["8.6"],
    "cuda": "13.0",
    "libraries": [],
    "system": ["libcuda.so.1"],
    "batch_size": 32,
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("driver")).parent


@pytest.fixture
def gpu_bundle(frozen_sample: Path, tmp_path: Path) -> Path:
    """The sample bundle, made for a GPU; its runtime is the processor's alone, and too old for providers."""
    bundle = Path(shutil.copytree(frozen_sample, tmp_path / "bundle"))
    return with_provider(bundle, PROVIDER)


def with_provider(bundle: Path, provider: dict[str, Any]) -> Path:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["runtime"] |= {"provider": provider, "operators": None}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    return bundle


def run(bundle: Path, *arguments: str, driver: Path, **said: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), **said}
    return subprocess.run(
        [*command_of(bundle), *arguments], capture_output=True, check=False, env=environment
    )


def test_no_driver(gpu_bundle: Path, tmp_path: Path) -> None:
    done = run(gpu_bundle, "a cat", driver=tmp_path)
    assert done.returncode == 9
    message, hint = complaint(done)
    assert message == "error: there is no NVIDIA driver here (libcuda.so.1 does not load)"
    assert "install NVIDIA's driver, or start the container with its GPUs (--gpus all)" in hint
    assert "--allow-cpu computes on the processor instead" in hint
    assert done.stdout == b""


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            {"FAKE_CUDA_VERSION": "12080"},
            "supports CUDA up to 12.8, the bundle requires 13.0",
            "driver 580 or newer",
        ),
        ({"FAKE_CUDA_COUNT": "0"}, "there is no NVIDIA GPU here", "CUDA_VISIBLE_DEVICES"),
        ({"FAKE_CUDA_INIT": "100"}, "there is no NVIDIA GPU here", "CUDA_VISIBLE_DEVICES"),
        ({"FAKE_CUDA_INIT": "803"}, "do not match (CUDA error 803)", "restart"),
        ({"FAKE_CUDA_INIT": "34"}, "failed to start (CUDA error 34): its library is a stub", "nvidia-smi"),
        ({"FAKE_CUDA_INIT": "999"}, "failed to start (CUDA error 999)", "nvidia-smi"),
        (
            {"FAKE_CUDA_CAPABILITY": "75"},
            "Imaginary GPU has compute capability 7.5; the bundle has code for 8.6 only",
            "make the bundle for this GPU",
        ),
    ],
)
def test_a_gpu_that_will_not_do(
    gpu_bundle: Path, driver: Path, said: dict[str, str], message: str, hint: str
) -> None:
    done = run(gpu_bundle, "a cat", driver=driver, **said)
    assert done.returncode == 9
    lines = complaint(done)
    assert message in lines[0]
    assert hint in lines[1]
    assert "--allow-cpu" in lines[1]


def test_a_library_of_the_bundle_that_does_not_load(gpu_bundle: Path, driver: Path) -> None:
    """It is there: that it is missing would be untrue, and what it lacks is what helps."""
    with_provider(gpu_bundle, {**PROVIDER, "libraries": ["libcufft.so.12"]})
    place = next((gpu_bundle / "lib").glob("libonnxruntime*")).with_name("libcufft.so.12")
    place.write_bytes(b"no library")
    done = run(gpu_bundle, "a cat", driver=driver)
    assert done.returncode == 9
    message, hint = complaint(done)
    assert "libcufft.so.12 of this bundle does not load: " in message
    assert "file too short" in message or "invalid ELF header" in message
    assert "--self-test" in hint


def test_what_to_do_is_the_bundles_to_say(gpu_bundle: Path, driver: Path) -> None:
    with_provider(gpu_bundle, {**PROVIDER, "remedy": "take the bundle for data centres"})
    done = run(gpu_bundle, "a cat", driver=driver, FAKE_CUDA_CAPABILITY="90")
    assert done.returncode == 9
    message, hint = complaint(done)
    assert "Imaginary GPU has compute capability 9.0; the bundle has code for 8.6 only" in message
    assert hint == "hint: take the bundle for data centres; --allow-cpu computes on the processor instead"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "TensorRT EP could not deserialize engine from cache: /b/model/model.model",
            "TensorRT does not take the engine of this bundle: it is damaged, or of another version of TensorRT",
        ),
        (
            "TensorRT EP can't find engine cache: /b/model/model.model. Please make sure engine cache is in the same",
            "the engine model.model is missing from the bundle",
        ),
        ("IExecutionContext: Error Code 2: OutOfMemory (Requested size was 7)", "the GPU is out of memory"),
    ],
)
def test_what_tensorrt_says(said: str, message: str) -> None:
    explained = why_not_run(said)
    assert explained is not None
    assert explained[0] == message
    assert explained[1]


def test_the_processor_only_when_it_is_allowed_aloud(
    gpu_bundle: Path, frozen_sample: Path, tmp_path: Path
) -> None:
    done = run(gpu_bundle, "--allow-cpu", "a cat", driver=tmp_path)
    assert done.returncode == 0
    assert done.stderr.decode() == (
        "warning: there is no NVIDIA driver here (libcuda.so.1 does not load); computing on the processor\n"
    )
    same = run(frozen_sample, "a cat", driver=tmp_path)
    assert vectors_of(done.stdout) == vectors_of(same.stdout)
    assert same.stderr == b"", "a bundle for the processor needs no permission"


def test_the_self_test_says_what_ran(gpu_bundle: Path, tmp_path: Path) -> None:
    done = run(gpu_bundle, "--self-test", "--json", "--allow-cpu", driver=tmp_path)
    said = json.loads(done.stdout)
    assert said["provider"] == "CPUExecutionProvider"
    assert said["instead"] == "there is no NVIDIA driver here (libcuda.so.1 does not load)"
    assert run(gpu_bundle, "--self-test", driver=tmp_path).returncode == 9


def test_info_says_which_gpus_it_is_for_without_one(gpu_bundle: Path, tmp_path: Path) -> None:
    done = run(gpu_bundle, "--info", driver=tmp_path)
    assert done.returncode == 0
    said = {line[:8].strip(): line[9:] for line in done.stdout.decode().splitlines()}
    assert "CUDAExecutionProvider for compute capability 8.6, CUDA 13.0" in said["provider"]
    assert said["runtime"] == "ONNX Runtime 1 (stock), not reduced to the model's operators"


def test_a_library_that_is_not_on_the_device(gpu_bundle: Path, driver: Path, tmp_path: Path) -> None:
    with_provider(gpu_bundle, {**PROVIDER, "libraries": ["libcublas.so.13"]})
    done = run(gpu_bundle, "a cat", driver=driver)
    assert done.returncode == 9
    lines = complaint(done)
    assert lines[0] == "error: libcublas.so.13 is not on this device"
    assert "install CUDA 13" in lines[1]
    older = compile_library(tmp_path / "older" / "libcublas.so.12", "int x;").parent
    both = {"LD_LIBRARY_PATH": f"{driver}:{older}"}
    assert "(there is libcublas.so.12)" in complaint(run(gpu_bundle, "a cat", driver=driver, **both))[0]


def test_a_library_of_a_toolkit_is_found(gpu_bundle: Path, driver: Path, tmp_path: Path) -> None:
    """In CUDA_HOME, where no loader looks: what is wrong after that is another thing."""
    with_provider(gpu_bundle, {**PROVIDER, "libraries": ["libcublas.so.13"]})
    compile_library(tmp_path / "cuda" / "lib64" / "libcublas.so.13", "int x;")
    done = run(gpu_bundle, "a cat", driver=driver, CUDA_HOME=str(tmp_path / "cuda"))
    assert "libcublas" not in complaint(done)[0]


def test_a_runtime_that_knows_no_such_provider(gpu_bundle: Path, driver: Path) -> None:
    done = run(gpu_bundle, "a cat", driver=driver)
    assert done.returncode == 9
    assert "does not offer version 24 of its C API" in complaint(done)[0]


def test_a_manifest_that_names_a_provider_wrongly(gpu_bundle: Path, driver: Path) -> None:
    with_provider(gpu_bundle, {**PROVIDER, "append": "magic"})
    done = run(gpu_bundle, "--allow-cpu", "a cat", driver=driver)
    assert done.returncode == 4
    assert "no provider is appended as 'magic'" in complaint(done)[0]


@pytest.mark.parametrize(
    ("code", "capability", "expected"),
    [
        ("8.6", (8, 6), True),
        ("8.6", (8, 9), True),
        ("8.6", (8, 0), False),
        ("8.6", (9, 0), False),
        ("9.0a", (9, 0), True),
        ("9.0a", (9, 1), False),
        ("12.0a", (12, 0), True),
    ],
)
def test_binary_compatibility(code: str, capability: tuple[int, int], expected: bool) -> None:
    assert runs_on(code, *capability) is expected


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("CUDA failure 2: out of memory ; GPU=0 ; hostname=x", "the GPU is out of memory"),
        (
            "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 5",
            "out of memory",
        ),
        ("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED", "out of memory"),
        ("CUDA failure 209: no kernel image is available for execution on the device", "was pruned"),
        ("CUDA failure 98: invalid device function", "was pruned"),
        ("CUDA failure 500: named symbol not found", "was pruned"),
        ("CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version", "too old"),
        ("CUDA failure 36: API call is not supported in the installed CUDA driver ; GPU=-1", "too old"),
        ("CUDA failure 100: no CUDA-capable device is detected", "no NVIDIA GPU"),
        ("libcublasLt.so.13: cannot open shared object file: No such file", "needs libcublasLt.so.13"),
    ],
)
def test_what_onnx_runtime_says_of_a_gpu_in_a_sentence(said: str, message: str) -> None:
    known = why_not_run(f"[ONNXRuntimeError] : 1 : FAIL : {said}")
    assert known is not None
    assert message in known[0]
    assert known[1]


def test_what_nobody_foresaw_is_passed_on() -> None:
    assert why_not_run("a new kind of failure") is None


CACHED: dict[str, Any] = {
    **PROVIDER,
    "options": {"trt_engine_cache_enable": "1", "trt_engine_cache_path": "{cache}/engines", "device_id": "0"},
}


def options_of(bundle: Path, said: dict[str, Any]) -> dict[str, str]:
    """What a session is given of the provider's options."""
    return Provider(Bundle(str(with_provider(bundle, said))), said)._settled()


def test_a_cache_is_a_folder_of_the_users(
    gpu_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBED_CACHE", str(tmp_path / "cache"))
    assert options_of(gpu_bundle, CACHED)["trt_engine_cache_path"] == f"{tmp_path}/cache/engines"
    assert (tmp_path / "cache/engines").is_dir()
    monkeypatch.delenv("EMBED_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert options_of(gpu_bundle, CACHED)["trt_engine_cache_path"] == f"{tmp_path}/xdg/edgepack/engines"


@pytest.mark.parametrize("home", ["/dev/null/nowhere", "~unknown-user"])
def test_where_nothing_can_be_kept_the_gpu_is_used_all_the_same(
    gpu_bundle: Path, home: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("EMBED_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    assert options_of(gpu_bundle, CACHED) == {"trt_engine_cache_enable": "0", "device_id": "0"}
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith("warning: ")
    assert said[0].endswith("what the GPU needs is made anew at each start")
    assert said[1] == "hint: name a folder that can be written in EMBED_CACHE"


def test_a_cache_that_was_named_must_be_one(gpu_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_CACHE", "/dev/null/nowhere")
    with pytest.raises(DeviceError, match="/dev/null/nowhere cannot be made"):
        options_of(gpu_bundle, CACHED)


def test_more_texts_at_once_than_the_engine_takes(
    frozen_sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, for the engine is asked and not the provider."""

    def limited(self: LoadedModel, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self.batch_size, self.largest_batch = 2, 4

    original = LoadedModel.__init__
    monkeypatch.setattr(LoadedModel, "__init__", limited)
    bundle = Bundle(str(frozen_sample))
    assert Embedder(bundle).batch_size == 2
    assert Embedder(bundle, batch_size=4).batch_size == 4
    with pytest.raises(UsageError, match="--batch-size 5: the bundle's engine takes 4 texts at most"):
        Embedder(bundle, batch_size=5)
