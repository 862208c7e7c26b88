"""Graphs as other tools leave them, optimized or quantized: taken for what they are, or refused at once."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_4bits_quantizer import MatMul4BitsQuantizer
from onnxruntime.transformers.float16 import convert_float_to_float16
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model
from tests.support.berts import write_bert
from tests.support.graphs import token_graph, write

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.inspection import inspect_model
from edgepack.models.reference import embed_with_onnxruntime, reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.recipes.search import Candidate, search
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions

TEXTS = ("hello world", "a small model", "hello", "models models a")
LEVELS = onnxruntime.GraphOptimizationLevel


@pytest.fixture
def exact(tmp_path: Path) -> ModelSource:
    """A model with larger tables than matrices, and its encoder alone in ``tokens.onnx``."""
    folder = tmp_path / "model"
    source, _ = write_bert(folder, vocab_size=400)
    write(token_graph(source, folder / "graph"), folder / "tokens.onnx")
    return source


def by_onnxruntime(level: Any) -> Callable[[Path, Path], None]:
    def optimize(file: Path, to: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(to)
        options.log_severity_level = 3
        onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    return optimize


def by_optimum(
    *, gelu: bool = False, half: bool = False, opsets: bool = True
) -> Callable[[Path, Path], None]:
    """Levels O2 to O4: lengths of texts out of EmbedLayerNormalization in the place of a mask."""

    def optimize(file: Path, to: Path) -> None:
        options = FusionOptions("bert")
        options.enable_gelu_approximation = gelu
        made = optimize_model(str(file), "bert", 4, 32, optimization_options=options, opt_level=0)
        if half:
            made.convert_float_to_float16(keep_io_types=True)
        made.save_model_to_file(str(to))
        if not opsets:
            model = onnx.load(to)
            del model.opset_import[1:]
            write(model, to)

    return optimize


def in_half_precision(file: Path, to: Path) -> None:
    write(convert_float_to_float16(onnx.load(file), keep_io_types=True), to)


class SomeTokens(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self.batches = list(np.random.default_rng(3).integers(1, 60, (3, 2, 9)))

    def get_next(self) -> dict[str, Any] | None:
        if not self.batches:
            return None
        ids = self.batches.pop()
        return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def statically(file: Path, to: Path) -> None:
    quantize_static(str(file), str(to), SomeTokens(), weight_type=QuantType.QInt8)


def dynamically(*operators: str) -> Callable[[Path, Path], None]:
    def quantize(file: Path, to: Path) -> None:
        quantize_dynamic(str(file), str(to), op_types_to_quantize=operators or None)

    return quantize


def dynamically_fused(file: Path, to: Path) -> None:
    """QAttention and QEmbedLayerNormalization."""
    by_optimum()(file, to)
    quantize_dynamic(str(to), str(to), extra_options={"DefaultTensorType": TensorProto.FLOAT})


def to_four_bits(file: Path, to: Path) -> None:
    quantizer = MatMul4BitsQuantizer(onnx.load(file), block_size=16, is_symmetric=True)
    quantizer.process()
    write(quantizer.model.model, to)


FLOATING = {
    "basic": by_onnxruntime(LEVELS.ORT_ENABLE_BASIC),
    "extended": by_onnxruntime(LEVELS.ORT_ENABLE_EXTENDED),
    "all": by_onnxruntime(LEVELS.ORT_ENABLE_ALL),
    "O2": by_optimum(),
    "O2 without its domain": by_optimum(opsets=False),
    "O3": by_optimum(gelu=True),
    "O4": by_optimum(gelu=True, half=True),
    "model_fp16": in_half_precision,
}
QUANTIZED = {
    "QDQ": (statically, "int8"),
    "model_quantized": (dynamically(), "int8"),
    "qint8, tables in float32": (dynamically("MatMul"), "int8"),
    "quantized after O2": (dynamically_fused, "int8"),
    "model_q4": (to_four_bits, "int4"),
}


def made_by(change: Callable[[Path, Path], None], exact: ModelSource, context: HostContext) -> ModelSource:
    logging.disable(logging.WARNING)
    try:
        change(exact.directory / "tokens.onnx", exact.directory / "other.onnx")
    finally:
        logging.disable(logging.NOTSET)
    return ingest(str(exact.directory / "other.onnx"), context=context)


@pytest.mark.sample(1)
@pytest.mark.parametrize("change", FLOATING.values(), ids=FLOATING)
def test_an_optimized_graph_gives_what_the_original_gives(
    change: Callable[[Path, Path], None], exact: ModelSource, context: HostContext
) -> None:
    theirs = made_by(change, exact, context)
    assert theirs.precision in ("fp32", "fp16")
    expected = reference_vectors(exact, TEXTS, context=context)
    vectors = reference_vectors(theirs, TEXTS, context=context)
    assert (vectors * expected).sum(axis=1).min() > 0.9995
    assert inspect_model(theirs, context=context).recipe == "int8"
    made = prepare_model(theirs, options=ModelOptions(recipe="int8", format="onnx"), context=context)
    assert made.precision == "int8"
    left = [each for each in onnx.load(made.file).graph.initializer if each.data_type == TensorProto.FLOAT]
    assert all(1 in each.dims or len(each.dims) < 2 for each in left), (
        "its tables and projections became int8, too"
    )
    assert (embed_with_onnxruntime(made.file, made.source, TEXTS) * expected).sum(axis=1).min() > 0.98
    made = prepare_model(theirs, options=ModelOptions(recipe="fp32"), context=context)
    assert made.precision == "fp32"
    np.testing.assert_allclose(embed_with_onnxruntime(made.file, made.source, TEXTS), vectors, atol=1e-5)


@pytest.mark.slow
def test_recipes_for_tensorrt_want_the_graph_unfused(
    exact: ModelSource, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = made_by(by_optimum(), exact, context)
    with pytest.raises(
        UnsupportedModelError, match=r"\(Attention, BiasGelu, EmbedLayerNormalization, Skip"
    ) as caught:
        prepare_model(theirs, options=ModelOptions(recipe="half"), context=context)
    assert "use the original model" in (caught.value.hint or "")
    with pytest.raises(UnsupportedModelError, match="this recipe is for TensorRT"):
        search(theirs, options=ModelOptions(), names=("unfused",), mixed=False, context=context)
    tried = [Candidate(name=name, recipe=name) for name in ("fp32", "unfused", "int8")]
    monkeypatch.setattr("edgepack.recipes.search.verification_texts", lambda: TEXTS)
    monkeypatch.setattr("edgepack.recipes.search.named_candidates", lambda *_: tried)
    warned: list[str] = []
    monkeypatch.setattr(type(context), "warn", lambda _, message: warned.append(message))
    points = search(theirs, options=ModelOptions(), mixed=False, context=context)
    assert [point.name for point in points] == ["fp32", "int8"]
    assert len(warned) == 1 and warned[0].startswith("unfused is skipped: the graph was fused")


@pytest.mark.sample(1)
@pytest.mark.parametrize(("change", "precision"), QUANTIZED.values(), ids=QUANTIZED)
def test_a_quantized_graph_is_never_called_full_precision(
    change: Callable[[Path, Path], None],
    precision: str,
    exact: ModelSource,
    context: HostContext,
) -> None:
    theirs = made_by(change, exact, context)
    assert theirs.precision == precision
    said = f"quantized already ({precision}): compared with this file, not with the full-precision model"
    assert said in theirs.warnings
    assert f"already quantized ({precision}, " in inspect_model(theirs, context=context).reason
    made = prepare_model(theirs, options=ModelOptions(recipe="fp32"), context=context)
    assert (made.precision, made.recipe) == (precision, "pool")
    with pytest.raises(UnsupportedModelError, match=rf"quantized already \({precision}, \w+\): every recipe"):
        search(theirs, options=ModelOptions(), context=context)


@pytest.mark.parametrize(
    ("operator", "domain", "named"),
    [
        ("Conv", "com.microsoft.nchwc", "x86 processors (com.microsoft.nchwc:Conv)"),
        ("EPContext", "com.microsoft", "one execution provider (com.microsoft:EPContext)"),
    ],
)
def test_what_was_optimized_for_one_kind_of_hardware_is_refused_at_once(
    operator: str, domain: str, named: str, exact: ModelSource, context: HostContext
) -> None:
    model = onnx.load(exact.directory / "tokens.onnx")
    model.graph.node.append(helper.make_node(operator, ["last_hidden_state"], ["more"], domain=domain))
    file = write(model, exact.directory / "other.onnx")
    with pytest.raises(UnsupportedModelError) as caught:
        ingest(str(file), context=context)
    assert caught.value.message == f"other.onnx was optimized for {named} and runs only there"
    assert "use the original file" in (caught.value.hint or "")


def test_ort_format_is_not_taken_for_a_model(exact: ModelSource, context: HostContext) -> None:
    made = prepare_model(exact, options=ModelOptions(recipe="fp32"), context=context)
    folder = exact.directory
    for name in ("tokens.onnx", "model.safetensors"):
        (folder / name).unlink()
    (folder / "model.ort").write_bytes(made.file.read_bytes())
    for named in (folder, folder / "model.ort"):
        with pytest.raises(ModelError, match=r"model\.ort is in ORT format") as caught:
            ingest(str(named), context=context)
        assert "quantize -f onnx" in (caught.value.hint or "")
