"""Whether a runtime that is out there runs a model, found by trying it."""

import importlib.util
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from edgepack.errors import BundleError, ModelError
from edgepack.models.ort.convert import convert_to_ort
from edgepack.models.ort.processor_time import VARIABLE
from edgepack.operators.config import operators_of_ort_model
from edgepack.plugins.context import HostContext
from edgepack.verifier import compatibility
from edgepack.verifier.compatibility import try_model
from edgepack.verifier.without_operators import ort_format_version, prune_onnx, prune_ort

pytestmark = pytest.mark.tools("env")
needs_gcc = pytest.mark.tools("gcc")


@pytest.fixture(scope="session")
def stock() -> Path:
    """The library of the onnxruntime package."""
    found = importlib.util.find_spec("onnxruntime")
    assert found is not None and found.origin is not None
    return next((Path(found.origin).parent / "capi").glob("libonnxruntime.so.*"))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small model in both formats: sin(x) chosen against cos(x) in a subgraph, then erf."""
    folder = tmp_path_factory.mktemp("models")

    def branch(name: str, operator: str) -> onnx.GraphProto:
        node = helper.make_node(operator, ["x"], [name])
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, 1, None)])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["flag"], to=TensorProto.BOOL),
        helper.make_node(
            "If", ["flag"], ["either"], then_branch=branch("a", "Sin"), else_branch=branch("b", "Cos")
        ),
        helper.make_node("Erf", ["either"], ["erf"]),
        helper.make_node("Floor", ["erf"], ["y"]),
    ]
    vector = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "small", vector[:1], vector[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "m.onnx"))
    return convert_to_ort(model, folder / "m.ort", level="none"), folder / "m.onnx"


def names_of(model: Path) -> set[str]:
    return {kernel.name for kernel in operators_of_ort_model(model).kernels}


def a_runtime_without(names: Collection[str]) -> Callable[..., dict[str, object]]:
    """Answers as a runtime does: names the first node without a kernel, and only that."""

    def answer(library: Path, model: Path, context: HostContext) -> dict[str, object]:
        if model.suffix == ".ort":
            found = sorted((kernel.name, kernel.since) for kernel in operators_of_ort_model(model).kernels)
        else:
            found = [(node.op_type, 9) for node in onnx.load(str(model)).graph.node]
        for name, since in found:
            if name in names:
                message = f"Could not find an implementation for {name}({since}) node with name 'n'"
                return {"version": "1.21.0", "refused": message}
        return {"version": "1.21.0", "died": "a rest that is invalid may end in anything"}

    return answer


def test_both_formats_run_on_the_stock_library(
    stock: Path, models: tuple[Path, Path], context: HostContext
) -> None:
    for model in models:
        found = try_model(stock, model, context=context)
        assert found.fits and found.version == "1.21.0"


def test_all_missing_kernels_are_named_one_after_another(
    stock: Path, models: tuple[Path, Path], context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compatibility, "_try", a_runtime_without({"Sin", "Erf", "Tan"}))
    found = try_model(stock, models[0], context=context)
    assert not found.fits and found.complete
    # With the types that the model wants them for, as the list of operators says it.
    assert found.missing == ("ai.onnx Erf 13", 'ai.onnx Sin 7 {"inputs":{"0":["float"]}}')

    monkeypatch.setattr(compatibility, "_try", a_runtime_without({"Erf", "Floor"}))
    found = try_model(stock, models[1], context=context)
    assert found.missing == ("Erf 9", "Floor 9") and found.complete


def test_what_cannot_be_left_out_makes_the_answer_incomplete(
    stock: Path, models: tuple[Path, Path], context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        compatibility,
        "_try",
        lambda *_: {"version": "1.21.0", "refused": "Could not find an implementation for Other(3) node"},
    )
    found = try_model(stock, models[1], context=context)
    assert found.missing == ("Other 3",) and not found.complete


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "The ORT format model version [6] is not supported in this build 1.14.0.",
            "m.ort is in version 6 of the ORT format, which ONNX Runtime 1.14.0 does not read",
        ),
        (
            "ONNX format model is not supported in this build.",
            "reads ORT format only (a minimal build), and m.ort is in ONNX format",
        ),
        (
            "/path/model.cc:134 Unsupported model IR version: 10, max supported IR version: 8\n",
            "m.ort is of ONNX IR version 10; ONNX Runtime 1.14.0 reads up to version 8",
        ),
        ("Something else\nwent wrong", "ONNX Runtime 1.14.0 does not load m.ort: went wrong"),
    ],
)
def test_other_reasons_are_sentences(
    message: str,
    sentence: str,
    stock: Path,
    models: tuple[Path, Path],
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compatibility, "_try", lambda *_: {"version": "1.14.0", "refused": message})
    found = try_model(stock, models[0], context=context)
    assert sentence in found.reason and not found.missing and not found.fits


def test_pruned_models_lack_the_operators_also_within_branches(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    pruned = tmp_path / "p.ort"
    assert names_of(models[0]) == {"ReduceSum", "Cast", "If", "Sin", "Cos", "Erf", "Floor"}
    assert prune_ort(models[0], pruned, {("Cos", 7), ("ReduceSum", 13)})
    assert names_of(pruned) == {"Cast", "If", "Sin", "Erf", "Floor"}
    assert not prune_ort(models[0], pruned, {("Cos", 1)})
    assert prune_onnx(models[1], tmp_path / "p.onnx", {"Erf"})
    onnx.checker.check_model(str(tmp_path / "p.onnx"))


def test_files_that_are_no_model(stock: Path, tmp_path: Path, context: HostContext) -> None:
    (tmp_path / "m.ort").write_bytes(b"text, and long enough")
    with pytest.raises(ModelError, match="not a model in ORT format"):
        try_model(stock, tmp_path / "m.ort", context=context)
    (tmp_path / "m.ort").write_bytes(b"\x08\x00\x00\x00ORTM" + b"\xff" * 16)
    with pytest.raises(ModelError, match="damaged"):
        ort_format_version(tmp_path / "m.ort")
    (tmp_path / "m.onnx").write_bytes(b"text, and long enough")
    assert "does not load m.onnx" in try_model(stock, tmp_path / "m.onnx", context=context).reason


@needs_gcc
def test_files_that_are_no_runtime(models: tuple[Path, Path], tmp_path: Path, context: HostContext) -> None:
    other = tmp_path / "libother.so"
    subprocess.run(["gcc", "-shared", "-x", "c", "-o", other, "-"], input=b"int f;", check=True)
    with pytest.raises(BundleError, match="not an ONNX Runtime that can be loaded here"):
        try_model(other, models[0], context=context)
    foreign = bytearray(other.read_bytes())
    foreign[18] = 243
    other.write_bytes(foreign)
    with pytest.raises(BundleError, match="is for riscv64 and cannot be loaded"):
        try_model(other, models[0], context=context)
    other.write_text("text")
    with pytest.raises(BundleError, match="not a shared library"):
        try_model(other, models[0], context=context)
    with pytest.raises(BundleError, match="no library"):
        try_model(tmp_path / "none.so", models[0], context=context)


@needs_gcc
def test_a_library_that_ends_the_process_is_said(
    models: tuple[Path, Path], tmp_path: Path, context: HostContext
) -> None:
    source = "#include <stdlib.h>\nvoid *OrtGetApiBase(void) { abort(); }"
    library = tmp_path / "libabort.so"
    subprocess.run(["gcc", "-shared", "-x", "c", "-o", library, "-"], input=source.encode(), check=True)
    with pytest.raises(
        BundleError, match=r"the process that loads it (was ended by signal 6|failed with exit code 134)"
    ):
        try_model(library, models[0], context=context)


def test_a_model_that_computes_for_hours_is_ended(
    stock: Path, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "0.5")
    info, node = helper.make_tensor_value_info, helper.make_node
    body = helper.make_graph(
        [node("Identity", ["on"], ["still"]), node("Add", ["x", "x"], ["more"])],
        "body",
        [
            info("at", TensorProto.INT64, []),
            info("on", TensorProto.BOOL, []),
            info("x", TensorProto.INT64, None),
        ],
        [info("still", TensorProto.BOOL, []), info("more", TensorProto.INT64, None)],
    )
    times = helper.make_tensor("times", TensorProto.INT64, [], [2**62])
    on = helper.make_tensor("always", TensorProto.BOOL, [], [True])
    ids = info("input_ids", TensorProto.INT64, [None, None])
    graph = helper.make_graph(
        [node("Loop", ["times", "always", "input_ids"], ["y"], body=body)],
        "endless",
        [ids],
        [info("y", TensorProto.INT64, None)],
        initializer=[times, on],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "endless.onnx"))
    with pytest.raises(ModelError, match=r"endless\.onnx computes for longer than a model of its size"):
        try_model(stock, tmp_path / "endless.onnx", context=context)
