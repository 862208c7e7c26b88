"""Static int8: quantized pairs that ONNX Runtime understands, ranges from texts, the same vector in any batch."""

from collections import Counter
from pathlib import Path

import onnx
import onnxruntime
import pytest
from tests.support.berts import onnx_vectors, some_tokens
from tests.support.compare import Load, alone, cosines, unexpected

from edgepack.errors import UnsupportedModelError
from edgepack.models.graph.precision import is_batch_dependent
from edgepack.models.ort.convert import convert_to_ort
from edgepack.operators.config import operators_of_ort_model
from edgepack.passes.int8_dynamic import int8_dynamic
from edgepack.passes.int8_static import int8_static
from edgepack.records.recipe import Material


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_vectors_stay_near_the_original(load: Load, fused: bool, activation: str) -> None:
    model = load(fused=fused, hidden_act=activation)
    quantized = int8_static(model, unexpected, Material())
    assert cosines(model, quantized, some_tokens()).min() > 0.98


def test_conversion_makes_integer_products_and_keeps_the_size(load: Load, tmp_path: Path) -> None:
    model = load(hidden_size=96, intermediate_size=384)
    converted = convert_to_ort(int8_static(model, unexpected, Material()), tmp_path / "model.ort")
    needs = {kernel.name for kernel in operators_of_ort_model(converted).kernels}
    assert "MatMulIntegerToFloat" in needs
    assert "DequantizeLinear" not in needs, "every pair became part of a product"
    assert converted.stat().st_size < 0.36 * len(model.SerializeToString())


def test_optimizations_that_cannot_be_loaded_again_are_not_saved(load: Load, tmp_path: Path) -> None:
    quantized = int8_static(load(hidden_size=96, intermediate_size=384), unexpected, Material())
    with pytest.raises(UnsupportedModelError, match=r"that it saves for model\.ort") as refused:
        convert_to_ort(quantized, tmp_path / "model.ort", runtime_optimizations=True)
    assert "fixed" in str(refused.value.hint)
    assert not (tmp_path / "model.ort").exists()


def test_a_text_has_the_same_vector_in_any_batch(load: Load) -> None:
    quantized = int8_static(load(), unexpected, Material())
    assert not is_batch_dependent(quantized)
    lengths = (9, 3, 12, 6)
    batch = some_tokens(lengths=lengths)
    together = onnx_vectors(quantized.SerializeToString(), batch)
    for row, length in enumerate(lengths):
        vector = onnx_vectors(quantized.SerializeToString(), alone(batch, row, length))[0]
        assert (vector * together[row]).sum() > 0.9999


def test_steady_activations_alone_and_the_rest_by_token(load: Load) -> None:
    steady = int8_static(load(), unexpected, Material(), activations="steady")
    assert Counter(node.op_type for node in steady.graph.node)["QuantizeLinear"] == 6, (
        "three of four values in each of two layers: not what the activation function made"
    )
    mixed = int8_dynamic(steady, unexpected)
    left = [
        each.name
        for each in mixed.graph.initializer
        if each.data_type == onnx.TensorProto.FLOAT and len(each.dims) == 2 and each.dims[1] > 1
    ]
    assert left == []
    assert cosines(mixed, load(), some_tokens()).min() > 0.98


def test_the_pairs_are_plain_onnx(load: Load) -> None:
    """So that other execution providers understand them: no operator of com.microsoft in what the pass adds."""
    model = load(fused=False)
    quantized = int8_static(model, unexpected, Material())
    assert {node.domain for node in quantized.graph.node} == {""}
    onnx.checker.check_model(quantized)
    onnxruntime.InferenceSession(quantized.SerializeToString())
