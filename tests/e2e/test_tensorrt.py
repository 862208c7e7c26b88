"""The real wheels: ``pytest --gpu-wheels``, which fetches 420 MB the first time. Nothing here needs a GPU."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tests.support.bare_root import Device, bare_root
from tests.support.fake_cuda import DRIVER, compile_driver, compile_library
from tests.support.stub_cuda import write_stubs

from edgepack.bundles.assemble import assemble
from edgepack.console import Story
from edgepack.errors import CannotRunHere, ToolError
from edgepack.models.reference import embed_with_onnxruntime, reference_vectors
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.targets import built_in_targets, read_target
from edgepack.tools import run_tool
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.run import BundleRunner
from edgepack_tensorrt.builder import TensorrtBuilder, create_builder
from edgepack_tensorrt.runtime import LIBRARY, NAME

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("gpu_wheels"), pytest.mark.timeout(3600)]

CPU = "CPUExecutionProvider"

# Of the bundle's files, where they are somebody else's and as they came.
SIZES = {
    "libtensorrt_rtx.so.1": 234_013_248,
    "libtensorrt_onnxparser_rtx.so.1": 4_097_984,
    "libonnxruntime.so.1.24.4": 22_159_232,
    "libcudart.so.13": 798_496,
}
LARGEST_FOLDER = 340_000_000


@pytest.fixture(scope="module")
def online(gpu_wheels: None) -> Iterator[HostContext]:
    with host_context(story=Story(quiet=True)) as made:
        yield made


@pytest.fixture(scope="module")
def builder(online: HostContext) -> TensorrtBuilder:
    file = next(file for file in built_in_targets() if file.name == "linux-x64-tensorrt.toml")
    made = create_builder(read_target(file, origin="edgepack"), online)
    assert isinstance(made, TensorrtBuilder)
    return made


@pytest.fixture(scope="module")
def bundle(builder: TensorrtBuilder, minilm: ModelSource, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """All but the archive, which takes minutes."""
    model = builder.prepare_model(minilm)
    runtime = builder.provide_runtime(model)
    runner = builder.make_runner(model, runtime)
    folder = tmp_path_factory.mktemp("tensorrt") / "bundle"
    folder.mkdir()
    return assemble(
        target=builder.target,
        model=model,
        runtime=runtime,
        runner=runner,
        folder=folder,
        context=builder.context,
    )


@pytest.fixture(scope="module")
def driver(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver that says there is a GPU, and fails as soon as one is used."""
    folder = tmp_path_factory.mktemp("driver")
    said = "".join(
        run_tool(["nm", "-D", "--undefined-only", path]) for path in (bundle.directory / "lib").iterdir()
    )
    functions = set(re.findall(r" U (cu[A-Z]\w+|nvml\w+)", said))
    management = {name for name in functions if name.startswith("nvml")}
    known = {
        *("cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName"),
        "cuDeviceGetAttribute",
    }
    compile_driver(folder, others=sorted(functions - management - known))
    source = "".join(f"int {name}(void) {{ return 999; }}\n" for name in sorted(management))
    compile_library(folder / "libnvidia-ml.so.1", source)
    return folder


def test_the_libraries_are_nvidias_and_no_more(bundle: Bundle) -> None:
    lib = bundle.directory / "lib"
    found = {path.name: path.stat().st_size for path in lib.iterdir()}
    assert {name: found[name] for name in SIZES} == SIZES
    assert set(found) == {*SIZES, LIBRARY, "libstdc++.so.6", "libgcc_s.so.1", "libz.so.1"}
    assert sum(path.stat().st_size for path in bundle.directory.rglob("*") if path.is_file()) < LARGEST_FOLDER


def test_the_engine_holds_every_weight_as_it_is(bundle: Bundle) -> None:
    fallback = onnx.load(bundle.directory / "model/cpu.onnx", load_external_data=False)
    outside = [each for each in fallback.graph.initializer if each.data_location == TensorProto.EXTERNAL]
    inside = [each for each in fallback.graph.initializer if each.data_location != TensorProto.EXTERNAL]
    assert len(outside) >= 30
    assert max(len(each.raw_data) for each in inside) < 1024
    assert (bundle.directory / "model/model.onnx").stat().st_size < 1000


def test_the_engine_says_how_long_it_is_and_whose(bundle: Bundle) -> None:
    """What TensorRT looks at before it loads an engine, or refuses it as malformed or of another version."""
    head = (bundle.directory / "model/model.engine").read_bytes()[:32]
    assert head[:4] == b"vtrt"
    assert int.from_bytes(head[16:24], "little") == (bundle.directory / "model/model.engine").stat().st_size
    assert tuple(head[24:28]) == (1, 7, 1, 116)


def test_the_same_engine_again(builder: TensorrtBuilder, bundle: Bundle, minilm: ModelSource) -> None:
    before = (bundle.directory / "model/model.engine").read_bytes()
    for entry in (builder.context.store.root / "tensorrt-engine").iterdir():
        shutil.rmtree(entry)
    again = next(path for path in builder.prepare_model(minilm).companions if path.suffix == ".engine")
    assert again.read_bytes() == before


def test_float16_is_near_float32(bundle: Bundle, online: HostContext, minilm: ModelSource) -> None:
    exact = reference_vectors(minilm, verification_texts(), context=online)
    halved = embed_with_onnxruntime(bundle.directory / "model/cpu.onnx", minilm, verification_texts())
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(halved, axis=1)
    cosines = (exact * halved).sum(axis=1) / lengths
    assert cosines.min() > 0.99999


def test_it_says_that_it_is_not_verified(builder: TensorrtBuilder, bundle: Bundle) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("there is a GPU here: verified when the bundle is built")
    with pytest.raises(CannotRunHere, match="there is no NVIDIA driver here"):
        BundleRunner(context=builder.context).embed(bundle, ["a"])


def test_a_root_with_nothing_but_the_c_library_and_a_driver(
    bundle: Bundle, driver: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    bare_root(root)
    device = Device(root, bundle.directory)
    alone = device.run("/bundle/embed", "a cat")
    assert alone.returncode == 9
    assert "there is no NVIDIA driver here" in alone.stderr
    processor = device.run("/bundle/embed", "--self-test", "--allow-cpu", "--json")
    assert processor.returncode == 0, processor.stderr
    assert json.loads(processor.stdout)["min_cosine"] > 0.9999
    (folder,) = [path.parent for path in root.rglob("libc.so.6")]
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy(driver / name, folder / name)
    # Every library loads and the provider is registered; then it asks the driver for its devices.
    reached = device.run("/bundle/embed", "a cat")
    assert reached.returncode == 9, reached.stderr
    assert f"{NAME} finds no device here that it can use" in reached.stderr
    assert "what the GPU needs is made anew at each start" in reached.stderr, "a user without a home"
    (folder / "libnvidia-ml.so.1").unlink()
    lacking = device.run("/bundle/embed", "a cat")
    assert lacking.returncode == 9, lacking.stderr
    assert "libnvidia-ml.so.1, which is not on this device" in lacking.stderr


GPU = {
    "cudaGetDeviceCount": "int cudaGetDeviceCount(int *n) { *n = 1; return 0; }",
    "cudaDeviceGetByPCIBusId": (
        "int strcmp(const char *, const char *);"
        'int cudaDeviceGetByPCIBusId(int *d, char *id) { *d = 0; return strcmp(id, "0000:01:00.0"); }'
    ),
    "cudaGetDeviceProperties": (
        "int cudaGetDeviceProperties(char *p, int d)"
        " { __builtin_memset(p, 0, 900); *(int *)(p + 360) = 8; *(int *)(p + 364) = 6; return 0; }"
    ),
    "cudaDeviceGetAttribute": "int cudaDeviceGetAttribute(int *v, int a, int d) { *v = 0; return 0; }",
    "cudaMemPoolCreate": "int cudaMemPoolCreate(void) { return 2; }",
    "cudaSetDevice": "int cudaSetDevice(int d) { return 0; }",
    "cudaStreamCreateWithFlags": "int cudaStreamCreateWithFlags(void **s, int f) { *s = s; return 0; }",
    "cudaRuntimeGetVersion": "int cudaRuntimeGetVersion(int *v) { *v = 13000; return 0; }",
}
"""A GPU of compute capability 8.6 on the bus at 0000:01:00.0, as CUDA's runtime would tell the provider of it."""


def write_bus(root: Path) -> None:
    """What Linux says of a GeForce RTX 4090 in /sys."""
    place = root / "sys/bus/pci/devices/0000:01:00.0"
    place.mkdir(parents=True)
    for name, text in {"vendor": "0x10de", "device": "0x2684", "class": "0x030000"}.items():
        (place / name).write_text(f"{text}\n")
    card = root / "sys/class/drm/card0"
    card.mkdir(parents=True)
    (card / "device").symlink_to("../../../bus/pci/devices/0000:01:00.0")


def test_the_provider_takes_all_up_to_the_engine(bundle: Bundle, tmp_path: Path) -> None:
    """The real provider finds a made-up GPU, takes every option, reads the EPContext node and hands the engine to
    TensorRT, which needs a real driver to take it."""
    made = Path(shutil.copytree(bundle.directory, tmp_path / "bundle", copy_function=os.link, symlinks=True))
    library = made / "lib" / LIBRARY
    stubs = write_stubs(library, tmp_path / "stubs", answers=GPU)
    (made / "lib/libcudart.so.13").unlink()
    shutil.copy(stubs / "libcudart.so.13", made / "lib/libcudart.so.13")
    root = tmp_path / "root"
    root.mkdir()
    bare_root(root)
    write_bus(root)
    (folder,) = [path.parent for path in root.rglob("libc.so.6")]
    said = run_tool(["nm", "-D", "--undefined-only", library])
    functions = set(re.findall(r" U (cu[A-Z]\w+)", said)) - {"cuInit"}
    succeed = "".join(f"int {name}(void **p) {{ *p = p; return 0; }}\n" for name in sorted(functions))
    compile_library(folder / "libcuda.so.1", DRIVER + succeed)
    management = "".join(
        f"int {name}(void) {{ return 999; }}\n" for name in re.findall(r" U (nvml\w+)", said)
    )
    compile_library(folder / "libnvidia-ml.so.1", management)
    device = Device(root, made)
    done = device.run("/bundle/embed", "a cat")
    assert done.returncode == 9
    assert "TensorRT does not take the engine of this bundle" in done.stderr
    (made / "model/model.engine").rename(tmp_path / "model.engine")
    done = device.run("/bundle/embed", "a cat")
    assert "the engine model.engine is missing from the bundle" in done.stderr, done.stderr


def test_the_archive_is_within_its_budget(tmp_path: Path) -> None:
    from tests.support.command import edgepack

    done = edgepack("bundle", "--target", "linux-x64-tensorrt", "--output", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["verification"]["status"] in ("not verified", "passed")
    assert said["archive_bytes"] < 130_000_000


def test_the_functions_of_the_c_api_are_where_the_program_looks_for_them(
    bundle: Bundle, tmp_path: Path
) -> None:
    """In ONNX Runtime 1.24.4, with the device that is always there: each call answers as the function that it is named after."""
    folder = Path(
        shutil.copytree(bundle.directory, tmp_path / "bundle", copy_function=os.link, symlinks=True)
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["runtime"]["version"] == "1.24.4"
    manifest["model"]["file"] = manifest["model"]["cpu_file"]
    processor = {"name": CPU, "append": "plugin", "library": "", "options": {}, "optimization": "none"}
    manifest["runtime"]["provider"] |= {**processor, "capabilities": [], "libraries": []}
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    driver = compile_library(tmp_path / "driver/libcuda.so.1", DRIVER).parent
    program: list[str | Path] = ["env", f"LD_LIBRARY_PATH={driver}", folder / "embed"]
    said = json.loads(run_tool([*program, "--bench", "--json"]))
    assert said["provider"] == CPU
    assert said["nodes"][CPU] > 50
    command = [*program, "--out", "json", "a cat"]
    assert len(json.loads(run_tool(command))[0]["embedding"]) == 384
    manifest["runtime"]["provider"]["library"] = "lib/libnone.so"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ToolError, match="libnone"):
        run_tool(command)
