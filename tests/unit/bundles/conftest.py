"""Small real parts of a bundle: an ONNX model and a tokenizer that run, a program and a library from the compiler."""

import shutil
import subprocess
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgepack.bundles.assemble import assemble
from edgepack.bundles.place import placed_folder
from edgepack.console import Story
from edgepack.files.store import Store, digest_tree
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource, Pooling, PreparedModel
from edgepack.records.operators import Operator, Operators
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import ModelOptions, Platform, Target

DIMENSION = 8
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz0123456789.,?!/"]


def compile_c(source: str, output: Path, *flags: str) -> Path:
    """A real ELF file."""
    subprocess.run(
        ["gcc", "-x", "c", "-", "-x", "none", "-o", str(output), "-Wl,--build-id=none", "-s", *flags],
        input=source.encode(),
        check=True,
    )
    return output


def names_in(folder: Path) -> list[str]:
    """What lies in a folder, hidden things too."""
    return sorted(path.name for path in folder.iterdir())


def write_model(path: Path, *, seed: int = 0) -> Path:
    """Mean of token vectors, normalised: int64 [batch, sequence] in, float32 [batch, DIMENSION] out."""
    table = np.random.default_rng(seed).normal(size=(len(WORDS), DIMENSION)).astype(np.float32)
    shape = ["batch", "sequence"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["tokens"]),
        helper.make_node("ReduceMean", ["tokens"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("LpNormalization", ["mean"], ["sentence_embedding"], axis=1, p=2),
    ]
    output = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", DIMENSION])
    graph = helper.make_graph(nodes, "tiny", inputs, [output], [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def write_tokenizer(path: Path) -> Path:
    """One token a character."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    """A model as found."""
    folder = tmp_path_factory.mktemp("source")
    write_tokenizer(folder / "tokenizer.json")
    write_model(folder / "model.onnx")
    return ModelSource(
        name="tiny-org/tiny-model",
        origin="folder tiny-model",
        directory=folder,
        weights=None,
        onnx=folder / "model.onnx",
        tokenizer=folder / "tokenizer.json",
        config={},
        pooling=Pooling(),
        max_length=64,
        dimension=DIMENSION,
        license="apache-2.0",
        files=tuple(digest_tree(folder)),
    )


@pytest.fixture(scope="session")
def model(source: ModelSource) -> PreparedModel:
    """A model as shipped."""
    assert source.onnx is not None
    return PreparedModel(
        file=source.onnx,
        format="onnx",
        precision="fp32",
        recipe="pool",
        needs=Operators(kernels=frozenset({Operator(domain="ai.onnx", since=13, name="Gather")})),
        source=source,
        inputs=("input_ids", "attention_mask", "token_type_ids"),
    )


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> RuntimeArtifact:
    """A small real shared library with a licence."""
    folder = tmp_path_factory.mktemp("runtime")
    (folder / "onnxruntime.txt").write_text("MIT, Microsoft\n")
    (folder / "eigen.txt").write_text("MPL-2.0\n")
    library = folder / "libonnxruntime.so.1.21.0"
    compile_c("int answer(void) { return 42; }", library, "-shared", "-fPIC", "-nostdlib")
    return RuntimeArtifact(
        library=library,
        version="1.21.0",
        kind="minimal",
        provides=Operators(
            kernels=frozenset(
                {
                    Operator(domain="ai.onnx", since=13, name="Gather"),
                    Operator(domain="ai.onnx", since=13, name="Add", types='{"inputs":{"0":["float"]}}'),
                }
            )
        ),
        toolchain="gcc",
        licenses=(folder / "onnxruntime.txt", folder / "eigen.txt"),
    )


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> RunnerArtifact:
    """A small real program, a data file, and a link between two of its files."""
    folder = tmp_path_factory.mktemp("runner")
    licenses = tmp_path_factory.mktemp("runner-licenses")
    (licenses / "python.txt").write_text("PSF-2.0\n")
    compile_c('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }', folder / "embed")
    (folder / "_internal").mkdir()
    (folder / "_internal" / "data.bin").write_bytes(bytes(range(256)))
    (folder / "_internal" / "data").symlink_to("data.bin")
    return RunnerArtifact(
        directory=folder,
        program="embed",
        kind="gcc",
        versions={"python": "3.11.7", "gcc": "12"},
        licenses=(licenses / "python.txt",),
    )


@pytest.fixture
def target() -> Target:
    return small_target()


def small_target() -> Target:
    """A device like this machine."""
    return Target(
        name="tiny-target",
        summary="a device for tests",
        builder="tests",
        platform=Platform(os="linux", arch="x86_64", glibc="2.99"),
        model=ModelOptions(format="onnx", min_cosine=0.985, min_agreement=0.9),
    )


@pytest.fixture
def assembled(
    target: Target,
    model: PreparedModel,
    runtime: RuntimeArtifact,
    runner: RunnerArtifact,
    context: HostContext,
) -> Callable[..., Bundle]:
    """``assembled(destination, force=…, platform=…, **parts)``: a bundle of the small parts, some of them replaced."""

    def make(
        destination: Path, *, force: bool = False, platform: Platform | None = None, **parts: Any
    ) -> Bundle:
        given: dict[str, Any] = {
            "target": target,
            "model": model,
            "runtime": runtime,
            "runner": runner,
            **parts,
        }
        if platform is not None:
            given["target"] = replace(given["target"], platform=platform)
        with placed_folder(destination, force=force) as folder:
            made = assemble(**given, folder=folder, context=context)
        return replace(made, directory=destination)

    return make


@pytest.fixture(scope="session")
def sound(
    model: PreparedModel,
    runtime: RuntimeArtifact,
    runner: RunnerArtifact,
    tmp_path_factory: pytest.TempPathFactory,
) -> Bundle:
    """A bundle of the small parts, not to be changed."""
    folder = tmp_path_factory.mktemp("sound")
    with (
        host_context(story=Story(quiet=True), offline=True, store=Store(root=folder / "store")) as context,
        placed_folder(folder / "tiny", force=False) as place,
    ):
        made = assemble(
            target=small_target(), model=model, runtime=runtime, runner=runner, folder=place, context=context
        )
    return replace(made, directory=folder / "tiny")


@pytest.fixture
def bundle(sound: Bundle, tmp_path: Path) -> Bundle:
    """A bundle that may be damaged."""
    folder = tmp_path / "dist" / "tiny"
    shutil.copytree(sound.directory, folder, symlinks=True)
    return replace(sound, directory=folder, manifest=deepcopy(sound.manifest))


@pytest.fixture
def native(assembled: Callable[..., Bundle], runner: RunnerArtifact, tmp_path: Path) -> Bundle:
    """With a program of edgepack's own, as far as the manifest says, and no links."""
    folder = tmp_path / "runner"
    shutil.copytree(runner.directory, folder, ignore=shutil.ignore_patterns("_internal"))
    return assembled(tmp_path / "dist/native", runner=replace(runner, directory=folder, kind="native"))
