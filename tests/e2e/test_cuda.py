"""The real wheels: ``pytest --gpu-wheels``, which fetches 708 MB the first time. Nothing here needs a GPU."""

import hashlib
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard
from tests.support.bare_root import Device, bare_root
from tests.support.command import edgepack
from tests.support.families import write_family
from tests.support.recording_cudart import VARIABLE, Registered, assert_registered, read_record
from tests.support.stub_cuda import write_stubs

from edgepack.api.kit import onnxruntime_files, wheel_file, wheel_files
from edgepack.bundles.assemble import assemble
from edgepack.console import Story
from edgepack.errors import CannotRunHere
from edgepack.files.elf import needed_libraries
from edgepack.models.reference import reference_vectors
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import load_plugins
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.verifier.run import BundleRunner
from edgepack_cuda.builder import CudaBuilder, create_builder
from edgepack_cuda.image import Image, read_image
from edgepack_cuda.lists import lists_for
from edgepack_cuda.nvidia import ONNXRUNTIME_GPU, SHARED
from edgepack_cuda.prune import blobs_of, device_code
from edgepack_cuda.runtime import LOAD_ORDER, PROVIDER

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("gpu_wheels"), pytest.mark.timeout(3600)]

WHOLE = 284_014_752
LARGEST_PROVIDER, LARGEST_PROVIDER_PACKED, LARGEST_ARCHIVE = 75_000_000, 16_000_000, 60_000_000
"""What issue 7 asks for: an 8.6 provider for all-MiniLM-L6-v2, raw and under zstd; the archive of a thin bundle."""
SIZE = 52_714_400
"""To 64 kB, which is for how patchelf lays things out."""
LITE = {"libcublas.so.13": 17_859_480, "libcublasLt.so.13": 415_361_528}
UNMODIFIED = {"libcublas.so.13": 57_282_152, "libcublasLt.so.13": 551_653_208, "libcudart.so.13": 806_720}
UNITS = 28


@dataclass(frozen=True, kw_only=True)
class Made:
    """A bundle, all but its archive, and what made it."""

    bundle: Bundle
    builder: CudaBuilder

    @property
    def lib(self) -> Path:
        return self.bundle.directory / "lib"

    @property
    def provider(self) -> Path:
        return self.lib / PROVIDER


@pytest.fixture(scope="module")
def online(gpu_wheels: None) -> Iterator[HostContext]:
    with host_context(story=Story(quiet=True)) as made:
        yield made


Make = Callable[..., Made]
THIN = ()
FULL = ("layout=full", "budget.download=1 GB")
LITE_OPTIONS = ("layout=lite", "prune_vendor=true", "budget.download=1 GB")


@pytest.fixture(scope="module")
def make(online: HostContext, minilm: ModelSource, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes a bundle with some options, once."""
    known: dict[tuple[str, ...], Made] = {}

    def make(*options: str) -> Made:
        if options not in known:
            target = load_plugins().target("linux-x64-cuda", options)
            builder = create_builder(target, online)
            assert isinstance(builder, CudaBuilder)
            model = builder.prepare_model(minilm)
            runtime = builder.provide_runtime(model)
            runner = builder.make_runner(model, runtime)
            folder = tmp_path_factory.mktemp("cuda") / "bundle"
            folder.mkdir()
            bundle = assemble(
                target=target, model=model, runtime=runtime, runner=runner, folder=folder, context=online
            )
            known[options] = Made(bundle=bundle, builder=builder)
        return known[options]

    return make


@pytest.fixture(scope="module")
def whole(online: HostContext) -> Path:
    """The provider as it was released."""
    files = onnxruntime_files(PROVIDER, SHARED)
    return wheel_file(wheel_files(ONNXRUNTIME_GPU, keep=files, context=online), PROVIDER)


@pytest.fixture(scope="module")
def stubs(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CUDA's libraries with all that the provider asks for, and a driver that says there is a GPU."""
    return write_stubs(whole, tmp_path_factory.mktemp("stubs"))


def test_the_provider_is_as_small_as_it_should_be(make: Make, whole: Path) -> None:
    provider = make(*THIN).provider
    assert whole.stat().st_size == WHOLE
    assert provider.stat().st_size == pytest.approx(SIZE, abs=65_536)
    assert provider.stat().st_size <= LARGEST_PROVIDER
    assert len(zstandard.compress(provider.read_bytes(), 19)) <= LARGEST_PROVIDER_PACKED
    assert "libcurand.so.10" not in needed_libraries(provider)


def test_the_code_that_stays_is_the_released_code(make: Make, whole: Path) -> None:
    """Unpacked and hashed, beside the whole library's; all else in memory is as patchelf left it, or points to it."""
    content = make(*THIN).provider.read_bytes()
    before, after = cubins(whole.read_bytes()), cubins(content)
    assert len(after) == UNITS
    assert {architecture for _, architecture in after} == {"86"}
    assert after == {key: before[key] for key in after}
    image = read_image(content, "it")
    assert list(blobs_of(image)) == []
    host = {name: sha256_of_section(image, name) for name in (".text", ".data.rel.ro", ".eh_frame")}
    assert host == {name: sha256_of_section(read_image(whole.read_bytes(), "it"), name) for name in host}


def test_the_runtime_is_given_just_that_code(make: Make, whole: Path, stubs: Path, tmp_path: Path) -> None:
    """Loaded with all symbols bound beside a runtime that takes down what each of the 609 constructors registers."""
    made = make(*THIN)
    found = registered(made, stubs, tmp_path / "record")
    content = made.provider.read_bytes()
    fatbins = device_code(read_image(content, "it"), "it")[2]
    assert_registered(found, content, kept={fatbin.index for fatbin in fatbins if fatbin.codes})
    # Each kernel that the host's code of the listed operators launches is in what stays.
    kernels = Counter(name for unit in found for name in unit.kernels)
    assert len(found) == 609 and sum(kernels.values()) > 10_000


def cubins(content: bytes) -> dict[tuple[int, str], str]:
    """SHA-256 of each unpacked cubin, by unit and architecture."""
    _, code, fatbins = device_code(read_image(content, "it"), "it")
    return {
        (fatbin.index, each.architecture): hashlib.sha256(each.content(code)).hexdigest()
        for fatbin in fatbins
        for each in fatbin.codes
        if each.architecture == "86"
    }


def sha256_of_section(image: Image, name: str) -> str:
    section = image.section(name)
    assert section is not None
    return hashlib.sha256(image.memory(section.address, section.size)).hexdigest()


def registered(made: Made, stubs: Path, record: Path) -> list[Registered]:
    """What the provider registers when the runner lets ONNX Runtime load it."""
    environment = {"LD_LIBRARY_PATH": str(stubs), VARIABLE: str(record)}
    done = subprocess.run(
        [made.bundle.program, "a cat"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 9 and "there is no NVIDIA GPU here" in done.stderr, done.stderr
    return read_record(record)


def test_only_what_the_lists_name_is_left(make: Make) -> None:
    lists = lists_for(ONNXRUNTIME_GPU.version)
    assert lists is not None and lists.units == 609
    changes = make(*THIN).bundle.manifest["runtime"]["changes"]
    assert f"device code for 86: {UNITS} of 609 translation units, 1.6 of 218.6 MB (punch)" in changes[0]
    assert "no longer names libcurand.so.10" in changes[1]


def test_deberta_in_float16_computes_on_the_processor(online: HostContext, tmp_path: Path) -> None:
    """ONNX Runtime 1.31.1 crashes when it rewrites this graph for convolutions."""
    source, _ = write_family(tmp_path / "model", "deberta-v2")
    target = load_plugins().target("linux-x64-cuda")
    builder = create_builder(target, online)
    model = builder.prepare_model(source)
    runtime = builder.provide_runtime(model)
    runner = builder.make_runner(model, runtime)
    folder = tmp_path / "bundle"
    folder.mkdir()
    bundle = assemble(
        target=target, model=model, runtime=runtime, runner=runner, folder=folder, context=online
    )
    done = subprocess.run(
        [bundle.program, "--allow-cpu", "--out", "json", "a small"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    vector = json.loads(done.stdout)[0]["embedding"]
    assert vector == pytest.approx(reference_vectors(source, ["a small"], context=online)[0], abs=1e-2)


def test_full_and_lite_have_cuda_beside_them(make: Make) -> None:
    full, lite = make(*FULL), make(*LITE_OPTIONS)
    assert {name: (full.lib / name).stat().st_size for name in UNMODIFIED} == UNMODIFIED
    assert {name: (lite.lib / name).stat().st_size for name in LITE} == LITE
    assert not any("cublas" in change for change in full.bundle.manifest["runtime"]["changes"])
    said = [c for c in lite.bundle.manifest["runtime"]["changes"] if "prune_vendor" in c]
    assert [change.partition(":")[0] for change in said] == ["libcublasLt.so.13", "libcublas.so.13"]
    assert "device code for 80, 86" in said[1], "cuBLAS chooses among lower capabilities itself"
    for made, how in ((full, "unmodified"), (lite, "changed: device code")):
        assert how in (made.bundle.directory / "LICENSES" / "libcublas.txt").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        # The stubs of cuBLAS and cudart fail as on a machine without a GPU.
        (THIN, "there is no NVIDIA GPU here"),
        # NVIDIA's own cudart asks the stub driver for functions that it does not have.
        (FULL, "the NVIDIA driver here is too old for the CUDA version of the bundle"),
        (LITE_OPTIONS, "the NVIDIA driver here is too old for the CUDA version of the bundle"),
    ],
)
def test_a_root_with_nothing_but_the_c_library_and_stubs(
    make: Make, stubs: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    """Every library loads, the provider is created, and the first call of CUDA is what fails."""
    made = make(*options)
    root = tmp_path / "root"
    root.mkdir()
    bare_root(root)
    device = Device(root, made.bundle.directory)
    assert "there is no NVIDIA driver here" in failed(device)
    (folder,) = [path.parent for path in root.rglob("libc.so.6")]
    shutil.copy(stubs / "libcuda.so.1", folder)
    if options == THIN:
        assert "libcudart.so.13 is not on this device" in failed(device)
        for name in LOAD_ORDER:
            shutil.copy(stubs / name, folder)
    assert said in failed(device)
    processor = device.run("/bundle/embed", "--self-test", "--allow-cpu", "--json")
    assert processor.returncode == 0, processor.stderr
    result = json.loads(processor.stdout)
    assert result["min_cosine"] > 0.9999
    assert said in result["instead"]


def failed(device: Device) -> str:
    done = device.run("/bundle/embed", "a cat")
    assert done.returncode == 9, done.stderr
    return done.stderr


def test_it_says_that_it_is_not_verified(make: Make) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("there is a GPU here: verified when the bundle is built")
    made = make(*THIN)
    with pytest.raises(CannotRunHere, match="there is no NVIDIA driver here"):
        BundleRunner(context=made.builder.context).embed(made.bundle, ["a"])


def test_the_archive_is_within_its_limit(tmp_path: Path) -> None:
    done = edgepack("bundle", "--target", "linux-x64-cuda", "--output", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["verification"]["status"] in ("not verified", "passed")
    assert said["archive_bytes"] <= LARGEST_ARCHIVE
