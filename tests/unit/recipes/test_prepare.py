"""From a source to the file that is shipped: formats, needs, notes, the cache, and the same bytes everywhere."""

import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, version_converter
from tests.support.berts import change_weights, source_of, write_bert
from tests.support.graphs import expand_layer_norms, token_graph, write
from tests.support.quick import quick

from edgepack.errors import MissingToolError, ModelError, TargetError, UnsupportedModelError
from edgepack.files.store import sha256_of
from edgepack.models.graph.precision import left_whole
from edgepack.models.reference import embed_with_onnxruntime, reference_vectors
from edgepack.operators.config import operators_of_ort_model, required
from edgepack.plugins.context import HostContext
from edgepack.recipes import prepare
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.target import ModelOptions, Pass

TEXTS = ("hello world", "a small model", "hello", "models models a")


@dataclass(frozen=True, kw_only=True)
class Listening:
    """A context that remembers what was said."""

    inner: HostContext
    notes: list[str] = field(default_factory=list)
    shown: dict[str, tuple[int | None, int]] = field(default_factory=dict)
    """Long work → how much there was, and how much was said to be done."""

    @contextmanager
    def progress(
        self, label: str, total: int | None = None, *, unit: str = "", before: str = ""
    ) -> Iterator[Any]:
        self.shown[label] = total, 0

        def advance(amount: int = 1) -> None:
            self.shown[label] = total, self.shown[label][1] + amount

        yield SimpleNamespace(advance=advance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_bert(tmp_path / "model")[0]


@pytest.fixture
def listening(context: HostContext) -> Any:
    return Listening(inner=context)


def test_long_passes_say_how_far_they_are(source: ModelSource, listening: Any, few_texts: int) -> None:
    prepare_model(source, options=ModelOptions(recipe="int8-download"), context=listening)
    texts, matrices = 11 * few_texts, 12
    assert listening.shown["run calibration texts"] == (texts, texts)
    assert listening.shown["try matrices"] == (2 * matrices, 2 * matrices)
    assert listening.shown["round matrices"] == (matrices, matrices)


def cosines(model: PreparedModel, source: ModelSource, context: HostContext) -> np.ndarray:
    vectors = embed_with_onnxruntime(model.file, source, TEXTS)
    found: np.ndarray = (vectors * reference_vectors(source, TEXTS, context=context)).sum(axis=1)
    return found


def test_int8_in_ort_format(source: ModelSource, listening: Any) -> None:
    model = prepare_model(source, options=ModelOptions(), context=listening)
    assert model.file.read_bytes()[4:8] == b"ORTM"
    assert (model.precision, model.format, model.batch_dependent) == ("int8", "ort", False)
    assert model.inputs == ("input_ids", "attention_mask", "token_type_ids")
    assert model.output == "sentence_embedding"
    assert model.recipe.startswith("pool, fuse(") and model.recipe.endswith(", smooth, int8-dynamic")
    size = model.file.stat().st_size / 1e6
    assert listening.notes == [f"fused, pooled, int8 … {size:.1f} MB .ort"]
    assert cosines(model, source, listening.inner).min() > 0.99


def test_full_precision(source: ModelSource, context: HostContext) -> None:
    model = prepare_model(source, options=ModelOptions(recipe="fp32"), context=context)
    assert model.precision == "fp32"
    np.testing.assert_allclose(
        embed_with_onnxruntime(model.file, source, TEXTS),
        reference_vectors(source, TEXTS, context=context),
        atol=1e-5,
    )


def test_needs_are_those_of_the_finished_file_with_types(source: ModelSource, context: HostContext) -> None:
    model = prepare_model(source, options=ModelOptions(), context=context)
    assert model.needs == operators_of_ort_model(model.file)
    needs = {(kernel.domain, kernel.name): kernel.types for kernel in required(model.needs).kernels}
    # What fusion, quantization and pooling added.
    assert ("com.microsoft", "MultiHeadAttention") in needs
    assert ("com.microsoft", "MatMulIntegerToFloat") in needs
    assert ("ai.onnx", "Sqrt") in needs
    assert needs["ai.onnx", "QuantizeLinear"] == '{"outputs":{"0":["uint8_t"]}}'
    # What fusion took away.
    assert ("ai.onnx", "Softmax") not in needs
    assert ("ai.onnx", "Erf") not in needs


@pytest.mark.sample(1)
@pytest.mark.parametrize("recipe", ["fp32", "int8"])
def test_onnx_format_needs_what_the_runtime_may_make_of_it(
    source: ModelSource, context: HostContext, recipe: str
) -> None:
    model = prepare_model(source, options=ModelOptions(recipe=recipe, format="onnx"), context=context)
    assert model.file.suffix == ".onnx"
    used = {(node.domain or "ai.onnx", node.op_type) for node in onnx.load(model.file).graph.node}
    needed = {(kernel.domain, kernel.name) for kernel in required(model.needs).kernels}
    assert used <= needed
    fixed = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
    assert {(kernel.domain, kernel.name) for kernel in required(fixed.needs).kernels} <= needed
    assert cosines(model, source, context).min() > 0.99


def test_saved_runtime_optimizations(source: ModelSource, context: HostContext) -> None:
    model = prepare_model(
        source, options=ModelOptions(recipe="fp32", format="ort-runtime-opt"), context=context
    )
    fixed = prepare_model(source, options=ModelOptions(recipe="fp32"), context=context)
    assert model.format == "ort-runtime-opt"
    assert model.file.read_bytes()[4:8] == b"ORTM"
    names = {(kernel.domain, kernel.name) for kernel in required(model.needs).kernels}
    assert {(kernel.domain, kernel.name) for kernel in required(fixed.needs).kernels} <= names
    assert cosines(model, source, context).min() > 0.9999


def test_a_list_of_passes(source: ModelSource, context: HostContext) -> None:
    steps = (Pass(name="int8-dynamic", parameters={"tables": False, "activations": "tensor"}),)
    model = prepare_model(source, options=ModelOptions(recipe=steps), context=context)
    assert model.recipe == 'pool, int8-dynamic(activations="tensor", tables=false)'
    assert model.batch_dependent
    assert "com.microsoft" in {kernel.domain for kernel in required(model.needs).kernels}


@pytest.mark.sample(1)
@pytest.mark.parametrize("opset", [13, 17, 18, 20])
def test_ready_made_graphs_of_other_opsets(source: ModelSource, context: HostContext, opset: int) -> None:
    """ReduceMax has its axes as an attribute before opset 18 and as an input since; LayerNormalization is new in 17."""
    graph = token_graph(source, source.directory / "graph")
    if opset < 17:
        expand_layer_norms(graph)
        graph.opset_import[0].version = opset
    elif opset > 17:
        graph = version_converter.convert_version(graph, opset)
    write(graph, source.directory / "graph.onnx")
    ready = source_of(source.directory, onnx="graph.onnx")
    model = prepare_model(ready, options=ModelOptions(), context=context)
    vectors = embed_with_onnxruntime(model.file, ready, TEXTS)
    expected = reference_vectors(source, TEXTS, context=context)
    assert (vectors * expected).sum(axis=1).min() > 0.99


def test_an_unknown_recipe_is_refused_before_anything_is_done(
    source: ModelSource, context: HostContext
) -> None:
    with pytest.raises(TargetError, match="did you mean int8"):
        prepare_model(source, options=ModelOptions(recipe="int88"), context=context)
    assert not context.store.root.exists()


def test_the_second_time_nothing_is_made(
    source: ModelSource, listening: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare_model(source, options=ModelOptions(), context=listening)
    monkeypatch.setattr(prepare, "_make", None)
    second = prepare_model(source, options=ModelOptions(), context=listening)
    assert second == first
    assert listening.notes[0] == listening.notes[1]


@pytest.mark.slow
def test_other_recipes_formats_and_weights_are_other_entries(
    source: ModelSource, context: HostContext
) -> None:
    files = {
        prepare_model(source, options=options, context=context).file
        for options in (
            ModelOptions(),
            ModelOptions(recipe="fp32"),
            ModelOptions(format="onnx"),
            ModelOptions(recipe=(Pass(name="fuse"),)),
            ModelOptions(recipe=(Pass(name="fuse", parameters={"embeddings": False}),)),
        )
    }
    change_weights(source, {"encoder.layer.0.output.dense.bias": np.ones(32, np.float32)})
    changed = prepare_model(replace(source, files=()), options=ModelOptions(), context=context)
    # fp32 is the same recipe as fuse alone.
    assert len({*files, changed.file}) == 5


def test_a_damaged_entry_is_made_again(source: ModelSource, context: HostContext) -> None:
    model = prepare_model(source, options=ModelOptions(), context=context)
    right = sha256_of(model.file)
    model.file.write_bytes(b"damaged")
    again = prepare_model(source, options=ModelOptions(), context=context)
    assert sha256_of(again.file) == right


def test_notes_of_passes_are_said(
    source: ModelSource, listening: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack.models.fuse.fusion.LARGEST_DIFFERENCE", -1.0)
    prepare_model(source, options=ModelOptions(recipe="fp32"), context=listening)
    prepare_model(source, options=ModelOptions(recipe="fp32"), context=listening)
    assert listening.notes[0].startswith("pooled, fp32, not fused (it would change the vectors by ")
    assert listening.notes[1] == listening.notes[0], "from the cache as well"


@pytest.mark.slow
@pytest.mark.parametrize("recipe", quick(["int8", "fp32"], "int8"))
@pytest.mark.tools("python")
def test_every_process_and_folder_gives_the_same_bytes(
    source: ModelSource, tmp_path: Path, recipe: str
) -> None:
    code = (
        "import pathlib, pickle, sys\n"
        "from edgepack.console import Story\n"
        "from edgepack.plugins.context import host_context\n"
        "from edgepack.recipes.prepare import prepare_model\n"
        "from edgepack.records.target import ModelOptions\n"
        "from edgepack.files.store import Store, sha256_of\n"
        "source = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "with host_context(story=Story(quiet=True), offline=True, store=Store(root=pathlib.Path(sys.argv[2]))) as c:\n"
        "    model = prepare_model(source, options=ModelOptions(recipe=sys.argv[3]), context=c)\n"
        "    print(sha256_of(model.file))"
    )
    digests = set()
    for number in range(3):
        elsewhere = tmp_path / f"elsewhere{number}"
        shutil.copytree(source.directory, elsewhere / "model")
        (elsewhere / "source").write_bytes(pickle.dumps(source_of(elsewhere / "model")))
        done = subprocess.run(
            [sys.executable, "-c", code, elsewhere / "source", elsewhere / "store", recipe],
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda source: source.weights.write_bytes(b"short"), ModelError),
        (lambda source: change_weights(source, {}, drop=["embeddings.LayerNorm.bias"]), ModelError),
        # Where PyTorch is, it is asked, and does not take this one either.
        (
            lambda source: source.config.update(model_type="t5"),
            (UnsupportedModelError, MissingToolError),
        ),
    ],
    ids=["truncated", "missing tensor", "architecture"],
)
def test_a_bad_model_leaves_no_entry(
    source: ModelSource, context: HostContext, damage: Callable[[Any], None], expected: Any
) -> None:
    damage(source)
    with pytest.raises(expected):
        prepare_model(source, options=ModelOptions(), context=context)
    left = [path for path in context.store.root.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []


def test_a_model_that_was_quantized_in_training_is_taken_as_it_is(
    source: ModelSource, listening: Any
) -> None:
    """Its QuantizeLinear/DequantizeLinear pairs stay, and the needs are those of the products made of them."""
    from edgepack.passes.int8_static import int8_static
    from edgepack.records.recipe import Material

    trained = int8_static(token_graph(source, source.directory / "graph"), print, Material())
    write(trained, source.directory / "graph.onnx")
    ready = source_of(source.directory, onnx="graph.onnx")
    model = prepare_model(ready, options=ModelOptions(recipe="int8"), context=listening)
    assert model.recipe == "pool"
    assert "quantized already, taken as it is" in listening.notes[0]
    assert "MatMulIntegerToFloat" in {kernel.name for kernel in required(model.needs).kernels}
    vectors = embed_with_onnxruntime(model.file, ready, TEXTS)
    expected = reference_vectors(source, TEXTS, context=listening.inner)
    assert (vectors * expected).sum(axis=1).min() > 0.98


@pytest.mark.parametrize(
    "recipe", ["fp16", "float-levels", "int8-static", "int8-fast", "int8-fastest", "int8-weights", "int4"]
)
def test_every_recipe_from_end_to_end(source: ModelSource, context: HostContext, recipe: str) -> None:
    model = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
    assert not model.batch_dependent
    assert cosines(model, source, context).min() > (0.93 if recipe == "int4" else 0.98)


def test_layers_are_a_list_of_patterns(source: ModelSource, context: HostContext) -> None:
    steps = (
        Pass(name="int4", parameters={"layers": ["encoder.layer.0.*"], "tables": "float"}),
        Pass(name="int8-weights"),
    )
    model = prepare_model(source, options=ModelOptions(recipe=steps), context=context)
    needs = {kernel.name for kernel in required(model.needs).kernels}
    assert {"MatMulNBits", "MatMulIntegerToFloat"} <= needs
    assert model.recipe == 'pool, int4(layers=["encoder.layer.0.*"], tables="float"), int8-weights'


def test_matrices_that_a_recipe_leaves_whole_are_counted() -> None:
    def graph(**kinds: int) -> onnx.ModelProto:
        tensors = [helper.make_tensor(name, kind, [64, 64], [0] * 4096) for name, kind in kinds.items()]
        nodes = [helper.make_node("MatMulInteger", ["x", "a"], ["y"])]
        return helper.make_model(helper.make_graph(nodes, "g", [], [], tensors))

    int8, fp32 = TensorProto.INT8, TensorProto.FLOAT
    assert left_whole(graph(a=int8, b=fp32, c=fp32)) == "2 of 3 matrices stay float32, 0.0 MB"
    assert left_whole(graph(a=int8, b=int8, c=int8, d=int8, e=int8, f=fp32)) == "", "a sixth is little"
    plain = graph(a=fp32)
    plain.graph.node[0].op_type = "MatMul"
    assert left_whole(plain) == "", "it computes with floats, as its recipe says"
