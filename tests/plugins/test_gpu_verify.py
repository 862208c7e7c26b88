"""A finished bundle for a GPU is verified without its maker, as far as a machine without that GPU can."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.berts import write_bert
from tests.support.cuda_libraries import Unit, library
from tests.support.fake_tensorrt import fake_wheels
from tests.support.native import compile_program

from edgepack.api import TargetBuilder
from edgepack.bundles.archive import archive_of, pack
from edgepack.bundles.assemble import assemble
from edgepack.console import Story
from edgepack.files.store import Store
from edgepack.finished_bundle import VerifyOptions, verify_again
from edgepack.models.find.source import ingest
from edgepack.models.read.tokenizer import minimal_json
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import load_plugins
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.runner.freeze.sample_bundle import stock_library
from edgepack.runner.tokenizer.compile import compiled_tokenizer
from edgepack_cuda import runtime as cuda_runtime
from edgepack_cuda.nvidia import SHARED
from edgepack_cuda.runtime import PROVIDER
from edgepack_tensorrt import runtime as tensorrt_runtime

pytestmark = [
    pytest.mark.slow,
    pytest.mark.tools("gcc", "c++", "python", "env", may=("dpkg-query", "patchelf", "setpriv", "nvidia-smi")),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU here"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "model"
    write_bert(folder, vocab_size=60)
    return folder


@pytest.fixture(scope="module")
def gpu_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """onnxruntime-gpu as far as a bundle takes it: the stock library, and a provider with code for some GPUs."""
    folder = tmp_path_factory.mktemp("wheel")
    capi = folder / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    shutil.copyfile(stock_library(), capi / "libonnxruntime.so.1.31.1")
    shutil.copyfile(stock_library(), capi / SHARED)
    unit = Unit(kernels=("_Z4fillIfEvv",), architectures=("80", "86", "90"), size=1000)
    shutil.move(library(folder / "made", [unit], name=PROVIDER), capi / PROVIDER)
    for name in ("LICENSE", "ThirdPartyNotices.txt"):
        (folder / "onnxruntime" / name).write_text(f"{name}\n")
    return folder


@pytest.fixture(scope="module")
def context(gpu_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostContext]:
    wheels = fake_wheels(tmp_path_factory.mktemp("wheels"))
    store = Store(root=tmp_path_factory.mktemp("store"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_runtime, "wheel_files", lambda *_, **__: gpu_wheel)
        patch.setattr(tensorrt_runtime, "wheel_files", lambda wheel, **_: wheels[wheel.name])
        with host_context(story=Story(quiet=True), offline=True, store=store) as made:
            yield made


@pytest.fixture(scope="module")
def program(model: Path, context: HostContext, tmp_path_factory: pytest.TempPathFactory) -> RunnerArtifact:
    folder = tmp_path_factory.mktemp("program")
    compile_program(folder / "embed")
    tokenizer = compiled_tokenizer(minimal_json(ingest(str(model), context=context)), context=context)
    return RunnerArtifact(directory=folder, program="embed", kind="native", tokenizer=tokenizer)


@pytest.mark.parametrize(
    "target_name", [pytest.param("linux-x64-cuda", marks=pytest.mark.slow), "linux-x64-tensorrt"]
)
def test_the_folder_and_the_archive_of_a_gpu_target(
    target_name: str, model: Path, context: HostContext, program: RunnerArtifact, tmp_path: Path
) -> None:
    host = load_plugins()
    # Random weights put texts closer together than any trained model does.
    target = host.target(
        target_name,
        (f"platform.has={json.dumps(['/usr/lib'])}", "model.min_agreement=0.9", "model.min_top10=0.9"),
    )
    builder: TargetBuilder = host.create(target, context)
    prepared = builder.prepare_model(ingest(str(model), context=context))
    runtime = builder.provide_runtime(prepared)
    assert runtime is not None and runtime.provides is None
    folder = tmp_path / f"model-{target_name}"
    folder.mkdir()
    bundle = assemble(
        target=target, model=prepared, runtime=runtime, runner=program, folder=folder, context=context
    )
    assert bundle.manifest["runtime"]["operators"] is None
    pack(bundle, archive_of(folder), context=context)
    check(bundle, archive_of(folder), model, context.store)


def check(bundle: Bundle, archive: Path, model: Path, store: Store) -> None:
    for path in (bundle.directory, archive):
        with (
            pytest.MonkeyPatch.context() as patch,
            host_context(story=Story(quiet=True), offline=True, store=store) as context,
        ):
            patch.setattr("edgepack.verifier.trusted_bundles.is_made_here", lambda digest, *, store: True)
            found = verify_again(path, VerifyOptions(model=str(model)), context=context)
        assert found.status == "not verified"
        assert found.reason.startswith("not on a GPU (there is no NVIDIA driver here")
        assert found.texts == 200
        assert found.mean_cosine > 0.9999
