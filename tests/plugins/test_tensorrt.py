"""The TensorRT builder with small wheels: model, engine, libraries, and what a device without a GPU says."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.berts import onnx_vectors, some_tokens, write_bert
from tests.support.fake_cuda import compile_library
from tests.support.fake_tensorrt import fake_wheels
from tests.support.native import compile_program
from tests.support.run_path import run_path

from edgepack.bundles.assemble import assemble
from edgepack.bundles.manifest import digest as digest_of
from edgepack.bundles.manifest import open_bundle
from edgepack.console import Story
from edgepack.errors import (
    BundleError,
    CannotRunHere,
    EdgepackError,
    MissingToolError,
    TargetError,
    ToolError,
    UnsupportedModelError,
)
from edgepack.files.shared_libraries import closure_of
from edgepack.files.store import Store
from edgepack.models.read.tokenizer import minimal_json
from edgepack.models.reference import exported_model, reference_vectors
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource
from edgepack.records.target import Target
from edgepack.runner.tokenizer.compile import compiled_tokenizer
from edgepack.targets import built_in_targets, read_target
from edgepack.verifier.run import BundleRunner
from edgepack_tensorrt import pins, runtime
from edgepack_tensorrt.builder import TensorrtBuilder, create_builder, fetch
from edgepack_tensorrt.engine import build_engine
from edgepack_tensorrt.profile import Profile
from edgepack_tensorrt.shared_weights import share_weights

pytestmark = pytest.mark.tools("gcc", "g++", "python", may=("dpkg-query", "patchelf", "env"))

PROFILE = Profile(usual_texts=2, most_texts=4, usual_tokens=8, most_tokens=16)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return fake_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module", autouse=True)
def fetched(wheels: dict[str, Path]) -> Iterator[None]:
    """What pip would bring; fetching has tests of its own."""

    def files(wheel: Any, *, keep: Sequence[str] = ("*",), context: Any) -> Path:
        return wheels[wheel.name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "wheel_files", files)
        yield


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostContext]:
    """A context for the tests that build, with one store."""
    store = Store(root=tmp_path_factory.mktemp("store"))
    with host_context(story=Story(quiet=True), offline=True, store=store) as made:
        yield made


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    return write_bert(tmp_path_factory.mktemp("bert") / "model", vocab_size=60)[0]


@pytest.fixture(scope="module")
def program(kept: HostContext, bert: ModelSource, tmp_path_factory: pytest.TempPathFactory) -> RunnerArtifact:
    """The native program."""
    folder = tmp_path_factory.mktemp("program")
    compile_program(folder / "embed")
    shutil.rmtree(folder / "embed-sources", ignore_errors=True)
    tokenizer = compiled_tokenizer(minimal_json(bert), context=kept)
    return RunnerArtifact(directory=folder, program="embed", kind="native", tokenizer=tokenizer)


def target_with(*overrides: str) -> Target:
    file = next(file for file in built_in_targets() if file.name == "linux-x64-tensorrt.toml")
    return read_target(file, origin="edgepack", overrides=overrides)


def builder_for(context: HostContext, *overrides: str) -> TensorrtBuilder:
    made = create_builder(target_with(*overrides), context)
    assert isinstance(made, TensorrtBuilder)
    return made


def bundle_of(builder: TensorrtBuilder, source: ModelSource, program: RunnerArtifact, folder: Path) -> Bundle:
    folder.mkdir()
    model = builder.prepare_model(source)
    artifact = builder.provide_runtime(model)
    return assemble(
        target=builder.target,
        model=model,
        runtime=artifact,
        runner=program,
        folder=folder,
        context=builder.context,
    )


@pytest.fixture(scope="module")
def made(
    kept: HostContext,
    bert: ModelSource,
    program: RunnerArtifact,
    tmp_path_factory: pytest.TempPathFactory,
) -> Bundle:
    return bundle_of(builder_for(kept), bert, program, tmp_path_factory.mktemp("made") / "bundle")


@pytest.fixture
def bundle(made: Bundle, tmp_path: Path) -> Bundle:
    """One that a test may damage."""
    folder = Path(shutil.copytree(made.directory, tmp_path / "bundle"))
    return Bundle(directory=folder, manifest=made.manifest)


# The target.


@pytest.mark.parametrize(
    ("override", "message", "hint"),
    [
        ('capabilities=["9.0"]', "no engines for compute capability 9.0", "linux-x64-cuda"),
        ("capabilities=[]", "capabilities is empty", "8.6"),
        ("model.recipe=int8", "not int8", "--recipe half"),
        ('model.recipe=[{pass="fuse"}, {pass="half"}]', "not fuse, half in onnx", "--recipe half"),
        ("model.format=ort", "in ort", "--set model.format=onnx"),
        ("platform.arch=aarch64", "not linux aarch64", "not pinned"),
        ("batch_size=64", "batch_size 64 and max_batch 32", "1 <= batch_size"),
        ("max_batch=100000", "are not a valid profile", "1024"),
        ("capabilites=1", "unknown option capabilites (did you mean capabilities?)", "options of builder"),
    ],
)
def test_what_makes_no_sense_is_refused(context: HostContext, override: str, message: str, hint: str) -> None:
    with pytest.raises(TargetError) as caught:
        create_builder(target_with(override), context)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_capabilities_are_taken_in_both_spellings(context: HostContext) -> None:
    assert builder_for(context, 'capabilities=["120", "8.6", "86"]').capabilities == ("8.6", "12.0")


def test_a_python_that_tensorrt_has_no_module_for() -> None:
    with pytest.raises(MissingToolError, match=r"no pinned wheel for Python 3\.9") as caught:
        pins.bindings((3, 9))
    assert "cp311" in (caught.value.hint or "")
    assert pins.bindings((3, 12)).python == "cp312"


@pytest.mark.slow
def test_fetching_asks_for_every_wheel(
    context: HostContext, wheels: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def files(wheel: Any, **options: Any) -> Path:
        asked.append(wheel.name)
        return wheels[wheel.name]

    monkeypatch.setattr(runtime, "wheel_files", files)
    fetch(target_with(), context)
    assert set(asked) == {
        "onnxruntime",
        "onnxruntime-ep-nv-tensorrt-rtx-cu13",
        "tensorrt-rtx-cu13-bindings",
    }


# The bundle.


@pytest.mark.slow
def test_the_bundle_holds_what_is_needed_and_no_more(bundle: Bundle) -> None:
    lib = bundle.directory / "lib"
    names = {path.name for path in lib.iterdir()}
    assert names >= {
        runtime.LIBRARY,
        "libtensorrt_rtx.so.1",
        "libtensorrt_onnxparser_rtx.so.1",
        "libcudart.so.13",
        "libstdc++.so.6",
        "libgcc_s.so.1",
    }
    assert "libtensorrt_plugins.so" not in names, "nothing needs it"
    assert not {"libcuda.so.1", "libnvidia-ml.so.1"} & names, "the driver's own"
    assert run_path(lib / runtime.LIBRARY) == "$ORIGIN"
    assert bundle.manifest["runtime"]["changes"] == [f"{runtime.LIBRARY}: run path $ORIGIN"]
    open_bundle(bundle.directory)


def test_licences_of_all_that_is_nvidias(bundle: Bundle) -> None:
    texts = {path.name for path in (bundle.directory / "LICENSES").iterdir()}
    assert texts >= {
        "tensorrt-rtx.txt",
        "libcudart.txt",
        "onnxruntime-ep-nv-tensorrt-rtx-cu13.txt",
        "libstdc++.txt",
    }
    index = (bundle.directory / "LICENSES/NOTICES.txt").read_text()
    assert "1.7.1.116" in index


def test_the_model_is_one_node_that_names_the_engine(bundle: Bundle) -> None:
    model = onnx.load(bundle.directory / "model/model.onnx")
    (node,) = model.graph.node
    said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    assert (node.op_type, node.domain) == ("EPContext", "com.microsoft")
    assert said["source"] == b"NvTensorRTRTXExecutionProvider"
    assert said["embed_mode"] == 0
    assert (bundle.directory / "model" / said["ep_cache_context"].decode()).is_file()
    assert said["ep_sdk_version"] == b"1.7.1.116"
    assert said["hardware_architecture"] == b"sm86,sm89,sm120,sm121"
    assert [each.name for each in model.graph.input] == bundle.manifest["model"]["inputs"]
    (output,) = model.graph.output
    assert output.type.tensor_type.elem_type == TensorProto.FLOAT
    assert {each.domain for each in model.opset_import} == {"", "com.microsoft"}


def test_the_engine_is_made_for_the_limits_of_the_runner(bundle: Bundle) -> None:
    content = (bundle.directory / "model/model.engine").read_bytes()
    said = json.loads(content[len(b"ENGINE") : content.index(b"\0")])
    assert said["capabilities"] == ["86", "89", "120", "121"]
    assert said["profile"]["input_ids"] == [[1, 1], [8, 16], [32, 16]], "the model takes 16 tokens"
    provider = bundle.manifest["runtime"]["provider"]
    assert (provider["batch_size"], provider["largest_batch"]) == (8, 32)
    assert "take a bundle of target linux-x64-cuda" in provider["remedy"]
    assert provider["options"]["nv_profile_max_shapes"] == (
        "input_ids:32x16,attention_mask:32x16,token_type_ids:32x16"
    )
    assert provider["options"]["nv_runtime_cache_path"].startswith("{cache}/tensorrt-rtx-1.7.1-")


def test_weights_are_in_the_bundle_once(bundle: Bundle, bert: ModelSource, kept: HostContext) -> None:
    fallback = onnx.load(bundle.directory / "model/cpu.onnx", load_external_data=False)
    outside = [each for each in fallback.graph.initializer if each.data_location == TensorProto.EXTERNAL]
    assert len(outside) >= 10
    assert {entry.value for each in outside for entry in each.external_data if entry.key == "location"} == {
        "model.engine"
    }
    inside = sum(len(each.raw_data) for each in fallback.graph.initializer)
    engine = (bundle.directory / "model/model.engine").stat().st_size
    assert inside < engine / 4
    exact = onnx_vectors(exported_model(bert, context=kept), some_tokens())
    vectors = onnx_vectors(bundle.directory / "model/cpu.onnx", some_tokens())
    assert (vectors * exact).sum(axis=1).min() > 0.9999


@pytest.mark.slow
def test_same_inputs_same_bytes(
    kept: HostContext, made: Bundle, bert: ModelSource, program: RunnerArtifact, tmp_path: Path
) -> None:
    shutil.rmtree(kept.store.root / "tensorrt-engine")
    again = bundle_of(builder_for(kept), bert, program, tmp_path / "again")
    assert digest_of(again) == digest_of(made)


# On a device.


def test_without_a_gpu_the_processor_is_measured_and_verifies_nothing(
    kept: HostContext, bundle: Bundle, bert: ModelSource
) -> None:
    runner = BundleRunner(context=kept, trusted=True)
    with pytest.raises(CannotRunHere) as caught:
        runner.embed(bundle, ["a b", "c"])
    assert caught.value.reason == (
        "not on a GPU (there is no NVIDIA driver here (libcuda.so.1 does not load)); these are the processor's"
    )
    exact = reference_vectors(bert, ["a b", "c"], context=kept)
    assert (np.array(caught.value.instead) * exact).sum(axis=1).min() > 0.9999
    engine = bundle.directory / "model/model.engine"
    engine.write_bytes(engine.read_bytes()[:100])
    with pytest.raises(EdgepackError):
        runner.embed(bundle, ["a b"])


def run(bundle: Bundle, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([bundle.program, *arguments], capture_output=True, text=True, check=False)


def test_warm_up_compares_the_golden_vectors(bundle: Bundle) -> None:
    said = json.loads(run(bundle, "--warmup", "--allow-cpu", "--json").stdout)
    assert said["min_cosine"] > 0.999
    assert said["shapes"] == said["cache"] == [], "there is nothing to compile or keep"
    golden = json.loads((bundle.directory / "golden.json").read_text())
    golden["vectors"][0] = [-number for number in golden["vectors"][0]]
    text = json.dumps(golden, separators=(",", ":"))
    (bundle.directory / "golden.json").write_text(text)
    assert run(bundle, "--warmup", "--allow-cpu").returncode in (4, 6)


# The engine.


def engine_of(model: Path, wheels: dict[str, Path], context: HostContext) -> Path:
    bindings = wheels["tensorrt-rtx-cu13-bindings"]
    libraries = wheels["onnxruntime"]
    return build_engine(
        model,
        profile=PROFILE,
        capabilities=("8.6",),
        libraries=libraries,
        bindings=bindings,
        context=context,
    ).file


def one_node(path: Path, operator: str, *inputs: onnx.TensorProto) -> Path:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence"])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence"])
    node = helper.make_node(operator, ["x", *(each.name for each in inputs)], ["y"], name="the.node")
    graph = helper.make_graph([node], "g", [value], [output], list(inputs))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_a_model_that_tensorrt_refuses(tmp_path: Path, wheels: dict[str, Path], context: HostContext) -> None:
    axis = numpy_helper.from_array(np.array(1), "axis")
    with pytest.raises(UnsupportedModelError) as caught:
        engine_of(one_node(tmp_path / "m.onnx", "CumSum", axis), wheels, context)
    assert caught.value.message == "TensorRT cannot take m.onnx at CumSum y: Invalid Node - the.node"
    assert not list((context.store.root / "tensorrt-engine").iterdir())


def test_a_builder_that_makes_nothing(tmp_path: Path, wheels: dict[str, Path], context: HostContext) -> None:
    with pytest.raises(UnsupportedModelError, match="made no engine"):
        engine_of(one_node(tmp_path / "m.onnx", "Erf"), wheels, context)


def test_a_builder_that_crashes(tmp_path: Path, wheels: dict[str, Path], context: HostContext) -> None:
    with pytest.raises(ToolError, match=r"TensorRT.s builder failed: .* was ended by signal 6"):
        engine_of(one_node(tmp_path / "m.onnx", "HardSwish"), wheels, context)


def test_an_engine_is_built_once(
    tmp_path: Path, wheels: dict[str, Path], context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = one_node(tmp_path / "m.onnx", "Mul", numpy_helper.from_array(np.ones(1, np.float32), "w"))
    built = engine_of(model, wheels, context)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert engine_of(model, wheels, context) == built
    with pytest.raises(EdgepackError):
        engine_of(
            one_node(tmp_path / "m.onnx", "Add", numpy_helper.from_array(np.ones(1, np.float32), "w")),
            wheels,
            context,
        )


def test_weights_that_the_engine_changed_stay_in_the_model(tmp_path: Path) -> None:
    kept, moved = (np.random.default_rng(seed).normal(size=(32, 32)).astype(np.float32) for seed in (1, 2))
    tensors = [numpy_helper.from_array(kept, "kept"), numpy_helper.from_array(moved, "moved")]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32])
    nodes = [
        helper.make_node("MatMul", ["x", "kept"], ["z"]),
        helper.make_node("MatMul", ["z", "moved"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [value], [output], tensors)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    engine = tmp_path / "model.engine"
    engine.write_bytes(b"head" + kept.tobytes() + moved.T.tobytes())
    shared = share_weights(tmp_path / "m.onnx", engine, tmp_path / "shared.onnx")
    assert (shared.shared, shared.kept) == (kept.nbytes, moved.nbytes)
    again = onnx.load(tmp_path / "shared.onnx")
    for tensor, expected in zip(again.graph.initializer, (kept, moved), strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), expected)


def test_a_library_that_no_wheel_brings(tmp_path: Path) -> None:
    other = compile_library(tmp_path / "libnew.so.2", "int f(void) { return 1; }\n")
    library = compile_library(
        tmp_path / "liba.so", "int g(void) { return 1; }\n", "-Wl,--no-as-needed", other
    )
    with pytest.raises(
        BundleError, match=r"liba\.so needs libnew\.so\.2, which is in none of the pinned wheels"
    ):
        closure_of([library], among=[])
    assert set(closure_of([library], among=[other]).files) == {"liba.so", "libnew.so.2"}
