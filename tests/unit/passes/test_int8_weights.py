"""Weight-only int8: nothing but the weights is lost, on every processor, and the file stays small."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.support.berts import onnx_vectors, some_tokens
from tests.support.compare import Load, alone, cosines, unexpected

from edgepack.errors import TargetError
from edgepack.models.graph.precision import is_batch_dependent
from edgepack.models.ort.convert import convert_to_ort
from edgepack.passes.int8_weights import LARGEST, MIDDLE, int8_weights
from edgepack.records.recipe import Material

WIDE = {"hidden_size": 96, "intermediate_size": 384}


def with_expanded_weights(quantized: onnx.ModelProto, model: onnx.ModelProto) -> onnx.ModelProto:
    """The float32 model with the weights that the integers stand for."""
    integers = {each.name: numpy_helper.to_array(each) for each in quantized.graph.initializer}
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if f"{tensor.name}.int8" in integers:
            values = integers[f"{tensor.name}.int8"] * integers[f"{tensor.name}.scales"]
            tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float32), tensor.name))
    return copy


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_vectors_are_those_of_float32_with_the_same_weights(load: Load, fused: bool, activation: str) -> None:
    model = load(fused=fused, hidden_act=activation)
    quantized = int8_weights(model, unexpected, Material())
    same_weights = with_expanded_weights(quantized, model)
    assert cosines(quantized, same_weights, some_tokens()).min() > 0.999999
    assert cosines(quantized, model, some_tokens()).min() > 0.999


def test_activations_are_seven_bits_so_that_no_sum_is_clipped(load: Load) -> None:
    """Two products of 127 · 127 fit into 16 bits, so that weights can use all of int8."""
    assert MIDDLE + LARGEST == 127 and MIDDLE - LARGEST >= 0
    quantized = int8_weights(load(), unexpected, Material())
    pieces = [node.output[0] for node in quantized.graph.node if node.op_type == "QuantizeLinear"]
    assert len(pieces) == 16, "two for each of four values in each of two layers"
    watched = onnx.ModelProto()
    watched.CopyFrom(quantized)
    for name in pieces:
        watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, None))
    import onnxruntime

    tokens = some_tokens()
    feed = {"input_ids": tokens.ids, "attention_mask": tokens.mask, "token_type_ids": tokens.types}
    found = onnxruntime.InferenceSession(watched.SerializeToString()).run(pieces, feed)
    assert max(int(each.max()) for each in found) <= 127
    assert all(each.max() > 120 for each in found), "and all of the seven bits are used"


def test_a_text_has_the_same_vector_in_any_batch(load: Load) -> None:
    quantized = int8_weights(load(), unexpected, Material())
    assert not is_batch_dependent(quantized)
    lengths = (9, 3, 12, 6)
    batch = some_tokens(lengths=lengths)
    together = onnx_vectors(quantized.SerializeToString(), batch)
    for row, length in enumerate(lengths):
        vector = onnx_vectors(quantized.SerializeToString(), alone(batch, row, length))[0]
        assert (vector * together[row]).sum() > 0.999999


def test_conversion_does_not_expand_the_weights(load: Load, tmp_path: Path) -> None:
    model = load(**WIDE)
    quantized = int8_weights(model, unexpected, Material())
    converted = convert_to_ort(quantized, tmp_path / "model.ort")
    assert converted.stat().st_size < 0.36 * len(model.SerializeToString())


def test_compensated_rounding_loses_less(load: Load) -> None:
    """On texts like those that it was shown."""
    model = load(**WIDE)
    tokens = some_tokens(lengths=(12, 9, 7, 11, 5, 10), seed=8)
    lost = {}
    for rounding in ("nearest", "gptq"):
        quantized = int8_weights(model, unexpected, Material(), rounding=rounding, tables=False)
        lost[rounding] = 1 - cosines(quantized, model, tokens).mean()
    assert lost["gptq"] < 0.8 * lost["nearest"]


def test_what_rounding_left_is_added(load: Load) -> None:
    """Sixteen finer steps make the error sixteen times smaller, and the second matrix has few values."""
    model = load(**WIDE)
    tokens = some_tokens(lengths=(12, 9, 7))
    coarse, fine = (int8_weights(model, unexpected, Material(), rest=rest, tables=False) for rest in (0, 16))
    assert 1 - cosines(fine, model, tokens).min() < 0.05 * (1 - cosines(coarse, model, tokens).min())
    weights = {each.name: numpy_helper.to_array(each) for each in fine.graph.initializer}
    name = "encoder.layer.0.intermediate.dense.weight"
    (exact,) = (numpy_helper.to_array(each) for each in model.graph.initializer if each.name == name)
    step, left = weights[f"{name}.scales"], weights[f"{name}.rest.int8"]
    made = weights[f"{name}.int8"] * step + left * weights[f"{name}.rest.scales"]
    assert (np.abs(made - exact) <= step / 32 * 1.01).all()
    assert np.abs(left).max() == 8


@pytest.mark.parametrize("rest", [-1, 255])
def test_finer_steps_that_do_not_fit(load: Load, rest: int) -> None:
    with pytest.raises(TargetError, match=f"rest is {rest}, expected 0 to 254"):
        int8_weights(load(), unexpected, Material(), rest=rest)


def test_the_layers_that_are_not_named_stay_as_they_are(load: Load) -> None:
    quantized = int8_weights(load(), unexpected, Material(), layers=("*.attention.*",), tables=False)
    names = {each.name for each in quantized.graph.initializer}
    assert "encoder.layer.1.attention.self.query.weight.int8" in names
    assert "encoder.layer.1.intermediate.dense.weight" in names


def test_the_same_model_gives_the_same_bytes(load: Load) -> None:
    model = load()
    first, second = (
        int8_weights(model, unexpected, Material(), rounding="gptq").SerializeToString(deterministic=True)
        for _ in range(2)
    )
    assert first == second


def test_zero_vectors_do_not_become_nan(load: Load) -> None:
    tokens: Any = some_tokens(lengths=(4,))
    tokens.mask[:] = 0
    vectors = onnx_vectors(int8_weights(load(), unexpected, Material()).SerializeToString(), tokens)
    assert np.isfinite(vectors).all()
