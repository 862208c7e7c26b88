"""Bundles for a GPU: on devices whose GPU, driver or libraries will not do (a sentence, what to do, exit code 9), and on a GPU of a
runtime that only takes down what it is asked for.
"""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_cuda import compile_driver, compile_library
from tests.support.sample_program import command_of, complaint, library_of, vectors_of

pytestmark = pytest.mark.tools("gcc", "g++", "python")

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
def gpu_bundle(native_sample: Path, tmp_path: Path) -> Path:
    """The sample bundle, made for a GPU; its runtime is the processor's alone, and too old for providers."""
    bundle = Path(shutil.copytree(native_sample, tmp_path / "bundle"))
    return with_provider(bundle, PROVIDER)


def with_provider(bundle: Path, provider: dict[str, Any]) -> Path:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["runtime"] |= {"provider": provider, "operators": None}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    return bundle


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).parents[3] / "support/fake_onnxruntime.c"
    return compile_library(
        tmp_path_factory.mktemp("runtime") / "libonnxruntime.so", source.read_text(), "-ldl"
    )


@pytest.fixture
def gpu(gpu_bundle: Path, runtime: Path) -> Path:
    """The same with a runtime that has a GPU: vectors are real."""
    library = gpu_bundle / library_of(gpu_bundle)
    manifest = json.loads((gpu_bundle / "manifest.json").read_text())
    library.rename(library.with_name("libreal.so"))
    shutil.copy(runtime, library)
    entry = next(e for e in manifest["files"] if gpu_bundle / e["path"] == library)
    entry |= {"size": runtime.stat().st_size, "sha256": hashlib.sha256(runtime.read_bytes()).hexdigest()}
    (gpu_bundle / "manifest.json").write_text(json.dumps(manifest))
    return gpu_bundle


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


def test_the_processor_only_when_it_is_allowed_aloud(
    gpu_bundle: Path, native_sample: Path, tmp_path: Path
) -> None:
    done = run(gpu_bundle, "--allow-cpu", "a cat", driver=tmp_path)
    assert done.returncode == 0
    assert done.stderr.decode() == (
        "warning: there is no NVIDIA driver here (libcuda.so.1 does not load); computing on the processor\n"
    )
    same = run(native_sample, "a cat", driver=tmp_path)
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
        ("8.6", "86", True),
        ("8.6", "89", True),
        ("8.6", "80", False),
        ("8.6", "90", False),
        ("9.0a", "90", True),
        ("9.0a", "91", False),
        ("12.0a", "120", True),
    ],
)
def test_binary_compatibility(gpu: Path, driver: Path, code: str, capability: str, expected: bool) -> None:
    with_provider(gpu, {**PROVIDER, "capabilities": [code]})
    done = run(gpu, "a cat", driver=driver, FAKE_CUDA_CAPABILITY=capability)
    assert done.returncode == (0 if expected else 9)


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
        ("CUDA failure 2: out of memory ; GPU=0 ; hostname=x", "the GPU is out of memory"),
        ("CUDA failure 2 ; GPU=0", "the GPU is out of memory"),
        ("CUDA failure 22 ; GPU=0", "the GPU does not run the model: CUDA failure 22 ; GPU=0"),
        (
            "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 5",
            "out of memory",
        ),
        ("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED", "out of memory"),
        ("createRuntimeConfig returned null", "cannot set up the engine"),
        ("CUDA failure 209: no kernel image is available for execution on the device", "was pruned"),
        ("CUDA failure 98: invalid device function", "was pruned"),
        ("CUDA failure 500: named symbol not found", "was pruned"),
        ("CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version", "too old"),
        ("CUDA failure 36: API call is not supported in the installed CUDA driver ; GPU=-1", "too old"),
        ("CUDA failure 100: no CUDA-capable device is detected", "no NVIDIA GPU"),
        ("libcublasLt.so.13: cannot open shared object file: No such file", "needs libcublasLt.so.13"),
        ("Failed to load /b/lib/libx.so: cannot open shared object file", "needs libx.so"),
        ("a new kind of failure", "the GPU does not run the model: a new kind of failure"),
    ],
)
@pytest.mark.sample(9)
@pytest.mark.parametrize("when", ["FAKE_ORT_RUN", "FAKE_ORT_SESSION"])
def test_what_onnx_runtime_says_of_a_gpu_in_a_sentence(
    gpu: Path, driver: Path, said: str, message: str, when: str
) -> None:
    done = run(gpu, "a cat", driver=driver, **{when: said})
    assert done.returncode == 9
    assert message in complaint(done)[0]
    assert len(complaint(done)) == 2
    allowed = run(gpu, "--allow-cpu", "a cat", driver=driver, **{when: said})
    # What a run needs is another matter: the session was there.
    assert allowed.returncode == (9 if when == "FAKE_ORT_RUN" else 0)


def test_a_session_on_a_gpu(gpu: Path, native_sample: Path, driver: Path, tmp_path: Path) -> None:
    with_provider(
        gpu, {**PROVIDER, "session": {"a.key": "1"}, "options": {"device_id": "0", "use_tf32": "0"}}
    )
    done = run(gpu, "a cat", "a cat sat", driver=driver, FAKE_ORT_RECORD=str(tmp_path / "record"))
    assert done.returncode == 0, done.stderr
    same = run(native_sample, "a cat", "a cat sat", driver=driver)
    for vector, expected in zip(vectors_of(done.stdout), vectors_of(same.stdout), strict=True):
        assert vector == pytest.approx(expected, abs=1e-5)
    model = next((gpu / "model").glob("model.*"))
    lines = (tmp_path / "record").read_text().splitlines()
    assert lines[:-1] == [
        "entry session.intra_op.allow_spinning=0",
        "optimization 0",
        "entry session.record_ep_graph_assignment_info=1",
        "entry a.key=1",
        "provider CUDAExecutionProvider",
        "option device_id=0",
        "option use_tf32=0",
        f"session {model}",
    ]
    assert lines[-1].startswith("run 2 x ")


def test_a_provider_in_a_library_of_its_own(gpu: Path, driver: Path, tmp_path: Path) -> None:
    name = "NvTensorRTRTXExecutionProvider"
    library = library_of(gpu)
    with_provider(gpu, {**PROVIDER, "name": name, "append": "plugin", "library": library, "batch_size": 8})
    assert run(gpu, "a cat", driver=driver, FAKE_ORT_RECORD=str(tmp_path / "record")).returncode == 0
    lines = (tmp_path / "record").read_text().splitlines()
    assert f"register {name} {gpu}/{library}" in lines
    assert lines[lines.index(f"provider {name}") + 1] == "option device_id=0"
    message, hint = complaint(run(gpu, "a cat", driver=driver, FAKE_ORT_DEVICES="0"))
    assert message == f"error: {name} finds no device here that it can use"
    assert "/sys/class/drm" in hint and "--allow-cpu" in hint


def test_a_provider_that_gets_no_node(gpu: Path, driver: Path) -> None:
    done = run(gpu, "a cat", driver=driver, FAKE_ORT_NODES="0")
    assert done.returncode == 9
    assert complaint(done)[0] == "error: ONNX Runtime gave CUDAExecutionProvider not one node of the model"


def test_batches_are_the_gpus(gpu: Path, driver: Path, tmp_path: Path) -> None:
    """Whole, however long their texts are, one after the other; and no more texts than the engine takes."""
    with_provider(gpu, {**PROVIDER, "batch_size": 4, "largest_batch": 6})
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{'a cat ' * count}\n" for count in range(1, 11)))
    done = run(gpu, "--input", str(lines), driver=driver, FAKE_ORT_RECORD=str(tmp_path / "record"))
    assert len(vectors_of(done.stdout)) == 10
    runs = [line for line in (tmp_path / "record").read_text().splitlines() if line.startswith("run ")]
    assert [line.split()[1] for line in runs] == ["4", "4", "2"]
    assert run(gpu, "--batch-size", "6", "a cat", driver=driver).returncode == 0
    done = run(gpu, "--batch-size", "7", "a cat", driver=driver)
    assert done.returncode == 2
    assert complaint(done)[0] == "error: --batch-size 7: the bundle's engine takes 6 texts at most"


def test_what_computes_is_said(gpu: Path, driver: Path) -> None:
    done = run(gpu, "--self-test", "--json", driver=driver)
    said = json.loads(done.stdout)
    assert said["provider"] == "CUDAExecutionProvider"
    assert said["device"] == "Imaginary GPU, compute capability 8.6"
    assert said["nodes"] == {"CUDAExecutionProvider": 1}
    text = run(gpu, "--self-test", driver=driver).stdout.decode()
    assert text.startswith(
        "self-test passed on CUDAExecutionProvider (Imaginary GPU, compute capability 8.6): "
    )
    bench = json.loads(run(gpu, "--bench", "--json", driver=driver).stdout)
    assert bench["provider"] == "CUDAExecutionProvider" and bench["batch_size"] == 32


def test_the_cpus_form_of_the_model(gpu: Path, native_sample: Path, driver: Path) -> None:
    """Where the GPU's form is one that the processor cannot run."""
    manifest = json.loads((gpu / "manifest.json").read_text())
    (gpu / "model/for-gpus.onnx").write_bytes(b"an engine")
    entry = next(entry for entry in manifest["files"] if entry["path"] == manifest["model"]["file"])
    manifest["files"].append({**entry, "path": "model/for-gpus.onnx", "size": 9})
    manifest["model"] |= {"file": "model/for-gpus.onnx", "cpu_file": manifest["model"]["file"]}
    (gpu / "manifest.json").write_text(json.dumps(manifest))
    done = run(gpu, "--allow-cpu", "a cat", driver=driver, FAKE_CUDA_COUNT="0")
    assert done.returncode == 0, done.stderr
    assert vectors_of(done.stdout) == vectors_of(run(native_sample, "a cat", driver=driver).stdout)


def test_a_graph_on_the_cpu_is_not_rewritten_for_convolutions(
    gpu: Path, driver: Path, tmp_path: Path
) -> None:
    """That rewriting crashes in ONNX Runtime 1.31.1 on DeBERTa in float16."""
    manifest = json.loads((gpu / "manifest.json").read_text())
    (gpu / "model/cpu.onnx").write_bytes(b"a graph")
    entry = next(entry for entry in manifest["files"] if entry["path"] == manifest["model"]["file"])
    manifest["files"].append({**entry, "path": "model/cpu.onnx", "size": 7})
    manifest["model"]["cpu_file"] = "model/cpu.onnx"
    (gpu / "manifest.json").write_text(json.dumps(manifest))
    record = tmp_path / "record"
    run(gpu, "--allow-cpu", "a cat", driver=driver, FAKE_CUDA_COUNT="0", FAKE_ORT_RECORD=str(record))
    assert record.read_text().splitlines() == [
        "entry session.intra_op.allow_spinning=0",
        "entry optimization.disable_specified_optimizers=NchwcTransformer",
        f"session {gpu}/model/cpu.onnx",
    ]


def test_at_start_it_says_what_computes(gpu: Path, driver: Path, tmp_path: Path) -> None:
    line = "computing on CUDAExecutionProvider (Imaginary GPU, compute capability 8.6), 1 of 1 nodes"
    with_provider(gpu, CACHED)
    served = run(gpu, "serve", "--check", "--port=0", driver=driver, EMBED_CACHE=str(tmp_path))
    assert served.returncode == 0, served.stderr
    assert served.stderr.decode().splitlines()[0] == line
    assert (tmp_path / "engines/edgepack").is_file(), "what was compiled is kept when the server ends"
    assert run(gpu, "a cat", driver=driver, EMBED_CACHE=str(tmp_path)).stderr == b"", "nobody looks"
    master, terminal = os.openpty()
    environment = {"LD_LIBRARY_PATH": str(driver), "EMBED_CACHE": str(tmp_path)}
    subprocess.run(
        [gpu / "embed", "a cat"], stdout=subprocess.DEVNULL, stderr=terminal, check=True, env=environment
    )
    assert os.read(master, 1000).decode().splitlines() == [line]


CACHED: dict[str, Any] = {
    **PROVIDER,
    "options": {"trt_engine_cache_enable": "1", "trt_engine_cache_path": "{cache}/engines", "device_id": "0"},
}


def options_of(gpu: Path, driver: Path, record: Path, **said: str) -> dict[str, str]:
    """What a session is given of the provider's options."""
    record.unlink(missing_ok=True)
    done = run(with_provider(gpu, CACHED), "a cat", driver=driver, FAKE_ORT_RECORD=str(record), **said)
    assert done.returncode == 0, done.stderr
    lines = record.read_text().splitlines()
    return dict(line.removeprefix("option ").split("=") for line in lines if line.startswith("option "))


def test_a_cache_is_a_folder_of_the_users(gpu: Path, driver: Path, tmp_path: Path) -> None:
    """And what the provider keeps is there when the program has ended."""
    named = options_of(gpu, driver, tmp_path / "record", EMBED_CACHE=str(tmp_path / "cache"))
    assert named["trt_engine_cache_path"] == f"{tmp_path}/cache/engines"
    assert (tmp_path / "cache/engines/edgepack").read_text() == "compiled kernels"
    usual = options_of(gpu, driver, tmp_path / "record", XDG_CACHE_HOME=str(tmp_path / "xdg"), EMBED_CACHE="")
    assert usual["trt_engine_cache_path"] == f"{tmp_path}/xdg/edgepack/engines"


@pytest.mark.parametrize("home", ["/dev/null/nowhere", "relative"])
def test_where_nothing_can_be_kept_the_gpu_is_used_all_the_same(
    gpu: Path, driver: Path, tmp_path: Path, home: str
) -> None:
    record, said = tmp_path / "record", {"XDG_CACHE_HOME": home, "EMBED_CACHE": ""}
    assert options_of(gpu, driver, record, **said) == {"trt_engine_cache_enable": "0", "device_id": "0"}
    lines = run(gpu, "a cat", driver=driver, **said).stderr.decode().splitlines()
    assert lines[0].startswith("warning: ")
    assert lines[0].endswith("what the GPU needs is made anew at each start")
    assert lines[1] == "hint: name a folder of your own in EMBED_CACHE"


def test_a_cache_that_was_named_must_be_one(gpu: Path, driver: Path) -> None:
    done = run(with_provider(gpu, CACHED), "a cat", driver=driver, EMBED_CACHE="/dev/null/nowhere")
    assert done.returncode == 9
    assert "/dev/null/nowhere cannot be used: Not a directory" in complaint(done)[0]


@pytest.mark.parametrize("place", ["", "engines"])
def test_kernels_of_others_are_not_taken(gpu: Path, driver: Path, tmp_path: Path, place: str) -> None:
    """What is in a provider's cache runs as whoever starts the program."""
    cache = tmp_path / "xdg/edgepack"
    (cache / "engines").mkdir(parents=True)
    (cache / place).chmod(0o777)
    named = run(with_provider(gpu, CACHED), "a cat", driver=driver, EMBED_CACHE=str(cache))
    assert named.returncode == 9
    assert complaint(named)[0].endswith("others may write it")
    usual = {"XDG_CACHE_HOME": str(cache.parent), "EMBED_CACHE": ""}
    assert options_of(gpu, driver, tmp_path / "record", **usual) == {
        "trt_engine_cache_enable": "0",
        "device_id": "0",
    }
    if os.geteuid() == 0:
        (cache / place).chmod(0o755)
        os.chown(cache / place, 12345, 12345)
        named = run(gpu, "a cat", driver=driver, EMBED_CACHE=str(cache))
        assert named.returncode == 9 and complaint(named)[0].endswith("it is another user's")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"libraries": ["../../tmp/libx.so"]}, "'../../tmp/libx.so' is no library's name"),
        ({"libraries": ["/tmp/libx.so"]}, "is no library's name"),
        ({"libraries": "libx.so"}, "it lacks libraries"),
        ({"library": "../libx.so"}, "names ../libx.so as runtime.provider.library but does not list it"),
        ({"library": "/tmp/libx.so"}, "but does not list it"),
        ({"library": ["lib"]}, "it lacks library"),
        ({"options": [1] * 99}, "it lacks options"),
        ({"options": {"device_id": "-5"}}, "there is no GPU '-5'"),
        ({"options": {"device_id": "99999999999"}}, "there is no GPU"),
        ({"options": {"trt_engine_cache_path": "{cache}/../../x"}}, "is no folder of the cache"),
        ({"options": {"trt_engine_cache_path": "/home/{cache}"}}, "is no folder of the cache"),
        ({"name": {}}, "it lacks name"),
        ({"batch_size": "32"}, "it lacks batch_size"),
        ({"batch_size": 1e400}, "batch_size is no number of texts"),
    ],
)
def test_a_provider_that_is_wrongly_said(
    gpu_bundle: Path, driver: Path, said: dict[str, Any], words: str
) -> None:
    done = run(with_provider(gpu_bundle, {**PROVIDER, **said}), "a cat", driver=driver)
    assert done.returncode == 4
    assert words in complaint(done)[0]


def test_a_gpu_is_made_ready(gpu: Path, driver: Path, tmp_path: Path) -> None:
    with_provider(gpu, {**CACHED, "batch_size": 4, "largest_batch": 6})
    said = {"EMBED_CACHE": str(tmp_path / "cache"), "FAKE_ORT_RECORD": str(tmp_path / "record")}
    done = run(gpu, "--warmup", "--json", driver=driver, **said)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    longest = json.loads((gpu / "manifest.json").read_text())["model"]["max_length"]
    lengths = sorted({min(length, longest) for length in (16, 64, 256, longest)})
    assert result["shapes"] == [[size, length] for size in (1, 4, 6) for length in lengths]
    assert len(result["round_seconds"]) >= 3
    assert result["cache"] == [{"folder": f"{tmp_path}/cache/engines", "files": 1, "bytes": 16}]
    runs = {line for line in (tmp_path / "record").read_text().splitlines() if line.startswith("run ")}
    assert {f"run {size} x {length}" for size, length in result["shapes"]} <= runs
    text = run(gpu, "--warmup", driver=driver, **said).stdout.decode().splitlines()
    assert text[0].startswith(
        "warmed up on CUDAExecutionProvider (Imaginary GPU, compute capability 8.6): loaded in "
    )
    assert text[2] == f"kept in {tmp_path}/cache/engines: 1 files, 0.0 kB"


def test_where_the_processor_computes_there_is_nothing_to_make_ready(
    gpu_bundle: Path, tmp_path: Path
) -> None:
    text = run(gpu_bundle, "--warmup", "--allow-cpu", driver=tmp_path).stdout.decode().splitlines()
    assert text[0] == (
        "nothing to warm up: CPUExecutionProvider computes, because there is no NVIDIA driver here (libcuda.so.1 does not load); "
        "nothing is compiled or cached"
    )
    assert text[1].startswith("3 texts, lowest cosine 1.000000")
