"""Dynamic int8 on small random models: near the original, and the same for any batch."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.berts import Tokens, onnx_vectors, some_tokens
from tests.support.compare import Load, cosines, unexpected

from edgepack.errors import UnsupportedModelError
from edgepack.foundry.feature_levels import processor_flags
from edgepack.models.graph.precision import is_batch_dependent, precision_of
from edgepack.models.ort.convert import convert_to_ort
from edgepack.passes.int8_dynamic import LOWEST, int8_dynamic
from edgepack.records.recipe import Material


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("fused", [True, False])
def test_vectors_stay_near_the_original(load: Load, activation: str, fused: bool) -> None:
    model = load(fused=fused, hidden_act=activation)
    assert cosines(model, int8_dynamic(model, unexpected), some_tokens()).min() > 0.995


@pytest.mark.parametrize("weight_range", ["paired", "full", "reduced"])
def test_every_range_of_weights_works(load: Load, weight_range: Any) -> None:
    model = load()
    quantized = int8_dynamic(model, unexpected, weight_range=weight_range)
    # Processors without VNNI add pairs of products in 16 bits, which the full range exceeds.
    clips = weight_range == "full" and not {"avx512_vnni", "avx_vnni"} & processor_flags()
    assert cosines(model, quantized, some_tokens()).min() > (0.95 if clips else 0.99)


@pytest.mark.parametrize("attention", ["Attention", "MultiHeadAttention"])
def test_one_scale_for_all_activations(load: Load, attention: Any) -> None:
    model = load(attention=attention)
    quantized = int8_dynamic(model, unexpected, activations="tensor")
    assert cosines(model, quantized, some_tokens(lengths=(9,))).min() > 0.98
    operators = Counter(node.op_type for node in quantized.graph.node)
    assert operators["QAttention"] == (2 if attention == "Attention" else 0)
    assert is_batch_dependent(quantized)


def test_a_text_has_the_same_vector_in_any_batch(load: Load) -> None:
    quantized = int8_dynamic(load(), unexpected)
    assert not is_batch_dependent(quantized)
    batch = some_tokens(lengths=(9, 3, 12, 6))
    together = onnx_vectors(quantized.SerializeToString(), batch)
    for row, length in enumerate((9, 3, 12, 6)):
        alone = Tokens(
            ids=batch.ids[row : row + 1, :length],
            mask=batch.mask[row : row + 1, :length],
            types=batch.types[row : row + 1, :length],
        )
        cosine = (onnx_vectors(quantized.SerializeToString(), alone)[0] * together[row]).sum()
        assert cosine > 0.99999


def test_all_matrices_and_tables_are_int8(load: Load) -> None:
    model = load(hidden_size=96, intermediate_size=384)
    quantized = int8_dynamic(model, unexpected)
    left = [
        tensor.name
        for tensor in quantized.graph.initializer
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2 and tensor.dims[1] > 1
    ]
    assert left == []
    assert precision_of(model) == "fp32"
    assert precision_of(quantized) == "int8"
    assert len(quantized.SerializeToString()) < 0.3 * len(model.SerializeToString())


def test_tables_can_stay_as_they_are(load: Load) -> None:
    model = load()
    quantized = int8_dynamic(model, unexpected, tables=False)
    before = {tensor.name: tensor for tensor in model.graph.initializer}
    table = "embeddings.word_embeddings.weight"
    after = {tensor.name: tensor for tensor in quantized.graph.initializer}
    np.testing.assert_array_equal(numpy_helper.to_array(after[table]), numpy_helper.to_array(before[table]))


def test_tables_are_within_half_a_step_of_each_row(load: Load) -> None:
    model = load()
    quantized = int8_dynamic(model, unexpected)
    before = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    after = {tensor.name: numpy_helper.to_array(tensor) for tensor in quantized.graph.initializer}
    table = "embeddings.word_embeddings.weight"
    scales = after[f"{table}.scales"]
    assert scales.shape == (60, 1)
    assert (np.abs(after[f"{table}.int8"] * scales - before[table]) <= 0.501 * scales).all()


def gelu_product(weights: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    """y = gelu(x) · weights + bias."""
    nodes = [
        helper.make_node("Gelu", ["x"], ["active"], domain="com.microsoft", name="active"),
        helper.make_node("MatMul", ["active", "weights"], ["product"], name="product"),
        helper.make_node("Add", ["product", "bias"], ["y"], name="y"),
    ]
    graph = helper.make_graph(
        nodes,
        "gelu-product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", len(weights)])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_what_gelu_makes_gets_all_256_steps(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is hardly negative: it is raised by its minimum, and the bias after the product makes up for that."""
    random = np.random.default_rng(4)
    weights, bias = (random.normal(size=size).astype(np.float32) for size in ((64, 48), (48,)))
    x = random.normal(size=(2, 9, 64)).astype(np.float32)
    model = gelu_product(weights, bias)

    def run(each: onnx.ModelProto) -> np.ndarray:
        values: np.ndarray = onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": x})[0]
        return values

    def lost() -> float:
        # With weights that are integers already only the activations are quantized; of 7 bits no sum of 16 bits clips.
        return float(np.abs(run(int8_dynamic(model, unexpected, weight_range="reduced")) - run(model)).mean())

    weights[:] = np.clip(np.rint(weights * 20), -63, 63)
    weights[0] = 63
    model = gelu_product(weights, bias)
    raised = lost()
    monkeypatch.setattr("edgepack.passes.int8_dynamic.LOWEST", {})
    around_zero = lost()
    assert raised < 0.7 * around_zero


@pytest.mark.parametrize("operator", list(LOWEST))
def test_how_far_below_zero_activation_functions_go(operator: str) -> None:
    """Lower than that would be cut off, and steps far below it would be wasted."""
    model = gelu_product(np.eye(64, dtype=np.float32), np.zeros(64, np.float32))
    model.graph.node[0].op_type = operator
    if operator == "Relu":
        model.graph.node[0].domain = ""
    if operator == "BiasGelu":
        model.graph.node[0].input.append("bias")
    x = np.linspace(-8, 8, 64 * 500, dtype=np.float32).reshape(1, 500, 64)
    (values,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert 0 <= LOWEST[operator] + float(values.min()) < 0.0005


def test_one_gelu_before_two_matrices_of_which_one_has_no_bias() -> None:
    """Only the one with a bias can make up for a shift; both must come out right."""
    random = np.random.default_rng(4)
    weights = random.normal(size=(64, 48)).astype(np.float32)
    model = gelu_product(weights, random.normal(size=48).astype(np.float32))
    bare = helper.make_node("MatMul", ["active", "others"], ["z"], name="z")
    model.graph.node.append(bare)
    model.graph.initializer.append(numpy_helper.from_array(weights[:, ::-1].copy(), "others"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    x = random.normal(size=(2, 9, 64)).astype(np.float32)
    exact, quantized = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": x})
        for each in (model, int8_dynamic(model, unexpected))
    )
    for before, after in zip(exact, quantized, strict=True):
        assert np.abs(after - before).max() < 0.03 * np.abs(before).max()


def test_gelu_in_a_whole_model_is_raised_in_each_layer(load: Load) -> None:
    quantized = int8_dynamic(load(), unexpected)
    assert len([node for node in quantized.graph.node if node.name.endswith(".raised")]) == 2


def test_zero_vectors_do_not_become_nan(load: Load) -> None:
    quantized = int8_dynamic(load(), unexpected)
    tokens = some_tokens(lengths=(4,))
    empty = Tokens(ids=tokens.ids, mask=tokens.mask * 0, types=tokens.types)
    assert np.isfinite(onnx_vectors(quantized.SerializeToString(), empty)).all()


def test_conversion_does_not_expand_the_weights(load: Load, tmp_path: Path) -> None:
    """Constant folding turns dequantized weights back into float32: 23 MB into 90."""
    quantized = int8_dynamic(load(hidden_size=96, intermediate_size=384), unexpected)
    converted = convert_to_ort(quantized, tmp_path / "model.ort")
    assert converted.stat().st_size < 1.15 * len(quantized.SerializeToString())


def test_the_model_that_was_given_stays_as_it_was(load: Load) -> None:
    model = load()
    before = model.SerializeToString(deterministic=True)
    int8_dynamic(model, unexpected)
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("isa", "largest"), [((), 63), (("avx2",), 63), (("avx2", "avx512_vnni"), 127)], ids=str
)
def test_weights_are_reduced_unless_the_device_is_known_to_have_vnni(
    load: Load, isa: tuple[str, ...], largest: int
) -> None:
    quantized = int8_dynamic(load(), unexpected, Material(isa=isa), weight_range="auto", tables=False)
    integers = [
        numpy_helper.to_array(tensor)
        for tensor in quantized.graph.initializer
        if tensor.name.endswith(".weight.int8")
    ]
    assert integers and max(int(np.abs(each.astype(int)).max()) for each in integers) == largest


def test_one_scale_for_all_activations_of_the_named_layers(load: Load) -> None:
    model = load(attention="Attention")
    products = [node.input[1] for node in model.graph.node if node.op_type == "Attention"]
    quantized = int8_dynamic(model, unexpected, activations="tensor", layers=(products[0],))
    operators = Counter(node.op_type for node in quantized.graph.node)
    assert (operators["QAttention"], operators["Attention"]) == (1, 1)
    by_token = Counter(node.op_type for node in int8_dynamic(model, unexpected).graph.node)
    assert (by_token["QAttention"], by_token["Attention"]) == (0, 2), "it has one scale for all tokens"


def test_only_the_layers_that_were_named(load: Load) -> None:
    quantized = int8_dynamic(load(), unexpected, layers=("encoder.layer.1.*",), tables=False)
    names = {tensor.name for tensor in quantized.graph.initializer}
    assert "encoder.layer.0.output.dense.weight" in names
    assert "encoder.layer.1.output.dense.weight.int8" in names
    assert "encoder.layer.1.output.dense.weight" not in names


def test_weighed_steps_lose_less_at_no_more_bits(load: Load) -> None:
    model = load()
    found = {}
    for weighed in (False, True):
        quantized = int8_dynamic(model, unexpected, Material(), steps=4.0, table_steps=4.0, weighed=weighed)
        weights = [numpy_helper.to_array(each) for each in quantized.graph.initializer]
        matrices = [each for each in weights if each.dtype == np.int8 and each.ndim == 2]
        bits = sum(each.size * _entropy(each) for each in matrices)
        found[weighed] = bits, 1 - cosines(model, quantized, some_tokens()).mean()
    assert found[True][0] < 1.01 * found[False][0]
    assert found[True][1] < found[False][1]


def _entropy(integers: np.ndarray) -> float:
    shares = np.unique(integers, return_counts=True)[1] / integers.size
    return float(-(shares * np.log2(shares)).sum())


def test_rounding_by_gradients_is_nearer_with_as_few_integers_and_the_same_twice(load: Load) -> None:
    model = load(vocab_size=1100)
    steps: Any = {"steps": 3.0, "table_steps": 3.0, "weighed": True}
    plain = int8_dynamic(model, unexpected, **steps)
    kept = Material()
    near, next_one = (int8_dynamic(model, unexpected, kept, gradients=True, **steps) for _ in range(2))
    assert len(kept.kept) == 1, "the gradients of the second are those of the first"
    again = int8_dynamic(model, unexpected, gradients=True, **steps)
    for each in (next_one, again):
        assert near.SerializeToString(deterministic=True) == each.SerializeToString(deterministic=True)
    tokens = some_tokens()
    lost, left = (1 - cosines(model, each, tokens).mean() for each in (plain, near))
    assert left < 0.9 * lost
    assert [node.op_type for node in near.graph.node] == [node.op_type for node in plain.graph.node]


def test_an_operator_without_a_gradient_is_refused_in_words(load: Load) -> None:
    model = load(attention="Attention")
    with pytest.raises(UnsupportedModelError, match="the operator Attention has no gradient here"):
        int8_dynamic(model, unexpected, steps=3.0, gradients=True)
