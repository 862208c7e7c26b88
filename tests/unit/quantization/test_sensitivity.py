"""Which matrices may have wide steps: those whose rounding the vectors do not show."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgepack.quantization.sensitivity import step_factors


def two_products(share: float) -> onnx.ModelProto:
    """rows·first + share·(rows·second)."""
    random = np.random.default_rng(6)
    weights = {
        "table": random.normal(size=(50, 16)),
        "first": random.normal(size=(16, 16)),
        "second": random.normal(size=(16, 16)),
        "share": np.array(share),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "first"], ["one"]),
        helper.make_node("MatMul", ["rows", "second"], ["other"]),
        helper.make_node("Mul", ["other", "share"], ["little"]),
        helper.make_node("Add", ["one", "little"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "s", 16])],
        [numpy_helper.from_array(each.astype(np.float32), name) for name, each in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def factors_of(share: float) -> dict[str, float]:
    model = two_products(share)
    noise = np.random.default_rng(7)
    rounded = {
        each.name: numpy_helper.to_array(each) + noise.normal(0, 0.02, (16, 16)).astype(np.float32)
        for each in model.graph.initializer
        if each.name in ("first", "second")
    }
    return step_factors(model, rounded, [{"input_ids": np.arange(50)[None, :]}])


def test_what_counts_half_may_be_rounded_twice_as_coarsely() -> None:
    """Two matrices of one size: their factors are each other's reciprocals, so that bits stay about the same."""
    found = factors_of(0.5)
    assert found["second"] / found["first"] == pytest.approx(2, rel=0.2)
    assert found["second"] * found["first"] == pytest.approx(1)


def test_matrices_that_count_alike_keep_their_steps() -> None:
    assert factors_of(1.0) == {"first": 1.0, "second": 1.0}


def test_no_matrix_loses_all_of_its_steps() -> None:
    assert factors_of(0.0) == {"first": 0.35, "second": 2.5}
