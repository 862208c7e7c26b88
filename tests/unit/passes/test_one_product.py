"""The int8 passes on one matrix: what is computed, number by number, and in which operators."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.compare import Load, unexpected

from edgepack.passes.int4 import int4
from edgepack.passes.int8_dynamic import int8_dynamic
from edgepack.passes.int8_static import int8_static
from edgepack.passes.int8_weights import int8_weights
from edgepack.quantization.int8 import quantized_columns
from edgepack.records.recipe import Material

INPUTS, OUTPUTS = 48, 40
PASSES: dict[str, Callable[..., onnx.ModelProto]] = {
    "dynamic": lambda model, **more: int8_dynamic(model, unexpected, Material(), **more),
    "tensor": lambda model, **more: int8_dynamic(model, unexpected, Material(), activations="tensor", **more),
    "static": lambda model, **more: int8_static(model, unexpected, Material(), **more),
    "integer": lambda model, **more: int8_static(model, unexpected, Material(), form="integer", **more),
    "weights": lambda model, **more: int8_weights(model, unexpected, Material(), **more),
    "int4": lambda model, **more: int4(model, unexpected, Material(), rounding="nearest", **more),
}


def product(*, rows: int = 30, size: float = 1) -> onnx.ModelProto:
    """y = table[ids] · weights + bias, and z = table[ids] · others; the table's values are about as large as ``size``."""
    random = np.random.default_rng(3)
    weights = {
        "table": random.normal(size=(rows, INPUTS)) * size,
        "weights": random.normal(size=(INPUTS, OUTPUTS)) * np.linspace(0.1, 2, OUTPUTS),
        "others": random.normal(size=(INPUTS, OUTPUTS)),
        "bias": random.normal(size=OUTPUTS),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"], name="rows"),
        helper.make_node("MatMul", ["rows", "weights"], ["product"], name="product"),
        helper.make_node("Add", ["product", "bias"], ["y"], name="y"),
        helper.make_node("MatMul", ["rows", "others"], ["z"], name="z"),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


def run(model: onnx.ModelProto, names: list[str]) -> dict[str, np.ndarray]:
    """Values of all rows of the table, two texts of half of them, by name; outputs or not."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    outputs = {each.name for each in model.graph.output}
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(watched.SerializeToString(), options)
    ids = np.arange(30, dtype=np.int64).reshape(2, 15)
    return dict(zip(names, session.run(names, {"input_ids": ids}), strict=True))


@pytest.mark.parametrize("name", list(PASSES))
def test_both_products_are_near_and_the_rows_are_integers(name: str) -> None:
    model = product()
    exact, found = (run(each, ["y", "z"]) for each in (model, PASSES[name](model)))
    near = {"int4": 0.2, "weights": 0.02}.get(name, 0.035)
    for value in "yz":
        assert np.abs(found[value] - exact[value]).max() < near * np.abs(exact[value]).max()


@pytest.mark.parametrize("name", [name for name in PASSES if name != "int4"])
def test_each_column_has_the_scale_and_the_integers_of_its_range(name: str) -> None:
    model = product()
    before, after = weights_of(model), weights_of(PASSES[name](model, layers=("weights",)))
    values, scales = quantized_columns(before["weights"], "full" if name == "weights" else "paired")
    np.testing.assert_array_equal(after["weights.int8"], values)
    np.testing.assert_array_equal(after["weights.scales"], scales)
    assert not after.get("weights.zeros", np.zeros(1)).any()
    assert "others" in after and "others.int8" not in after


@pytest.mark.parametrize("name", list(PASSES))
def test_every_node_has_a_name_of_its_own(name: str) -> None:
    """Profiles and errors of ONNX Runtime call nodes by it; what makes the same value as before keeps its name."""
    quantized = PASSES[name](product())
    names = [node.name for node in quantized.graph.node]
    assert all(names) and len(set(names)) == len(names)
    assert {"rows", "product", "z"} <= set(names)


@pytest.mark.parametrize("name", list(PASSES))
def test_activations_are_quantized_once_for_both_matrices(name: str) -> None:
    operators = [
        node.op_type
        for node in PASSES[name](product(), tables="float" if name == "int4" else False).graph.node
    ]
    quantizes = operators.count("QuantizeLinear") + operators.count("DynamicQuantizeLinear")
    assert quantizes == {"weights": 2, "int4": 0}.get(name, 1)


def test_two_passes_may_share_what_a_table_gives() -> None:
    """One product with static steps, the other with those of its tensor: each has names of its own for them."""
    model = product()
    first = PASSES["static"](model, layers=("weights",))
    exact, found = (run(each, ["y", "z"]) for each in (model, PASSES["tensor"](first)))
    for value in "yz":
        assert np.abs(found[value] - exact[value]).max() < 0.035 * np.abs(exact[value]).max()


@pytest.mark.parametrize("size", [1, 1e-4])
def test_a_token_s_largest_value_is_the_last_step(size: float) -> None:
    found = run(
        int8_dynamic(product(size=size), unexpected, tables=False),
        ["rows", "rows.signed.uint8", "rows.signed.range"],
    )
    largest = np.abs(found["rows"]).max(axis=-1, keepdims=True)
    np.testing.assert_allclose(found["rows.signed.range"], largest)
    wanted = np.rint(found["rows"] / largest * 127) + 128
    assert np.abs(found["rows.signed.uint8"].astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("size", [1, 1e-4])
def test_two_pieces_make_fourteen_bits(size: float) -> None:
    found = run(
        int8_weights(product(size=size), unexpected, Material(), tables=False),
        ["rows", "rows.coarse", "rows.fine", "rows.range"],
    )
    coarse, fine = ((found[f"rows.{piece}"].astype(np.float64) - 64) for piece in ("coarse", "fine"))
    assert np.abs(coarse).max() == np.abs(fine).max() == 63
    again = (coarse / 63 + fine / (63 * 2 * 63)) * found["rows.range"]
    assert np.abs(again - found["rows"]).max() <= np.abs(found["rows"]).max() / (63 * 2 * 63) * 0.51


@pytest.mark.parametrize("form", ["qdq", "integer"])
def test_static_steps_cover_what_the_texts_showed_and_zero(form: Any) -> None:
    model = product()
    weights = weights_of(model)
    quantized = int8_static(model, unexpected, Material(), tables=False, form=form)
    after = weights_of(quantized)
    low, high = weights["table"].min(), weights["table"].max()
    assert after["rows.step"] == pytest.approx((high - low) / 255, rel=1e-5)
    assert after["rows.zero"] == round(float(-low / after["rows.step"]))
    found = run(quantized, ["rows", "rows.uint8"])
    again = (found["rows.uint8"].astype(np.float64) - after["rows.zero"]) * after["rows.step"]
    assert np.abs(again - found["rows"]).max() <= 0.51 * after["rows.step"]


@pytest.mark.parametrize("sign", [1, -1])
def test_static_ranges_hold_zero_where_all_values_have_one_sign(sign: int) -> None:
    model = product()
    for tensor in model.graph.initializer:
        if tensor.name == "table":
            tensor.CopyFrom(
                numpy_helper.from_array(sign * (np.abs(numpy_helper.to_array(tensor)) + 1), "table")
            )
    after = weights_of(int8_static(model, unexpected, Material(), tables=False))
    assert after["rows.zero"] == (0 if sign > 0 else 255)
    assert after["rows.step"] == pytest.approx(np.abs(weights_of(model)["table"]).max() / 255, rel=1e-5)


def test_the_integer_product_adds_the_bias_itself() -> None:
    quantized = PASSES["integer"](product())
    products = {
        node.output[0]: list(node.input)
        for node in quantized.graph.node
        if node.op_type == "MatMulIntegerToFloat"
    }
    assert products["product"][5:] == ["", "bias"]
    assert products["z"][5:] == []
    (rest,) = (node for node in quantized.graph.node if node.output[0] == "y")
    assert (rest.op_type, list(rest.input)) == ("Identity", ["product"])


def test_a_product_that_two_take_keeps_its_bias_apart() -> None:
    model = product()
    model.graph.node.append(helper.make_node("Neg", ["product"], ["w"], name="w"))
    model.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, None))
    found = run(PASSES["integer"](model), ["y", "w"])
    bias = weights_of(model)["bias"]
    np.testing.assert_allclose(found["y"], bias - found["w"], atol=1e-5)


def test_biases_of_a_whole_model_are_added_once(load: Load) -> None:
    quantized = PASSES["integer"](load())
    operators = {node.op_type for node in quantized.graph.node}
    assert "Gelu" in operators and "BiasGelu" not in operators
    skips = [node for node in quantized.graph.node if node.op_type == "SkipLayerNormalization"]
    assert skips and all(len(node.input) == 4 for node in skips)


def test_a_model_without_steady_values_says_so() -> None:
    """What a table gives is no normalization's output."""
    said: list[str] = []
    model = product()
    quantized = int8_static(model, said.append, Material(), activations="steady", tables=False)
    assert said == ["no activations to quantize"]
    assert [node.op_type for node in quantized.graph.node] == [node.op_type for node in model.graph.node]


def test_what_mixes_tokens_is_steady_and_what_multiplies_by_weights_is_not() -> None:
    """Attention that was not fused: values weighed by scores are about as large for every token."""
    model = product()
    square = np.eye(INPUTS, dtype=np.float32)
    model.graph.initializer.append(numpy_helper.from_array(square, "square"))
    made: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Transpose", ["rows"], "turned", {"perm": [0, 2, 1]}),
        ("MatMul", ["rows", "turned"], "scores", {}),
        ("MatMul", ["scores", "rows"], "mixed", {}),
        ("MatMul", ["mixed", "others"], "z", {}),
        ("MatMul", ["rows", "square"], "projected", {}),
        ("MatMul", ["projected", "weights"], "product", {}),
    ]
    del model.graph.node[1], model.graph.node[-1]
    for place, (operator, inputs, output, more) in enumerate(made, start=1):
        node = helper.make_node(operator, inputs, [output], name=output, **more)
        model.graph.node.insert(place, node)
    quantized = int8_static(model, unexpected, Material(), activations="steady", tables=False)
    assert {node.input[0] for node in quantized.graph.node if node.op_type == "QuantizeLinear"} == {"mixed"}


def test_tables_as_they_were() -> None:
    model = product()
    before = weights_of(model)["table"]
    for name in PASSES:
        kept = PASSES[name](model, tables="float" if name == "int4" else False)
        np.testing.assert_array_equal(weights_of(kept)["table"], before)
        assert "table" not in {each.name for each in PASSES[name](model).graph.initializer}


def test_large_tables_have_few_distinct_integers_and_small_ones_all() -> None:
    few, all_of_them = (
        weights_of(int8_dynamic(product(rows=rows), unexpected, table_steps=3.0))["table.int8"]
        for rows in (1024, 1023)
    )
    assert few.std() == pytest.approx(3.0, rel=0.1)
    assert (np.abs(all_of_them.astype(int)).max(axis=1) == 127).all()


def test_weights_of_few_steps_are_rounded_with_what_they_take() -> None:
    model = product()
    after = weights_of(int8_dynamic(model, unexpected, Material(), steps=6.0))
    deviations = (
        after["weights.int8"].astype(float).std(axis=0),
        weights_of(model)["weights"].std(axis=0) / 6,
    )
    assert deviations[0] == pytest.approx([6.0] * OUTPUTS, rel=0.1)
    assert after["weights.scales"] == pytest.approx(deviations[1], rel=1e-5)
    nearest = np.rint(weights_of(model)["weights"] / after["weights.scales"])
    assert (after["weights.int8"] != nearest).any(), "not each by itself"


@pytest.mark.parametrize(("rows", "kind"), [(1024, TensorProto.INT4), (1023, TensorProto.INT8)])
def test_int4_tables_are_the_large_ones(rows: int, kind: int) -> None:
    quantized = PASSES["int4"](product(rows=rows))
    kinds = {each.name: each.data_type for each in quantized.graph.initializer}
    assert kinds["table.int4" if kind == TensorProto.INT4 else "table.int8"] == kind
