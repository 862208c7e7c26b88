"""GELU by tanh: how far off it is, of which operators, and what stays."""

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.berts import some_tokens
from tests.support.compare import Load, cosines, unexpected

from edgepack.passes.fast_gelu import fast_gelu


def activation(operator: str, **weights: np.ndarray) -> onnx.ModelProto:
    """z = -gelu(x), or -gelu(x + bias)."""
    nodes = [
        helper.make_node(operator, ["x", *weights], ["y"], name="active", domain="com.microsoft"),
        helper.make_node("Neg", ["y"], ["z"], name="after"),
    ]
    shape: Any = ["rows", 400]
    graph = helper.make_graph(
        nodes,
        "activation",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(model: onnx.ModelProto) -> np.ndarray:
    x = np.linspace(-10, 10, 1200, dtype=np.float32).reshape(3, 400)
    values: np.ndarray = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    return values


@pytest.mark.parametrize(
    ("operator", "weights"),
    [("Gelu", {}), ("BiasGelu", {"bias": np.linspace(-2, 3, 400, dtype=np.float32)})],
)
def test_it_is_off_by_half_a_thousandth_at_most(operator: str, weights: dict[str, np.ndarray]) -> None:
    model = activation(operator, **weights)
    before = model.SerializeToString()
    fast = fast_gelu(model, unexpected)
    assert [(node.op_type, node.name) for node in fast.graph.node] == [
        ("FastGelu", "active"),
        ("Neg", "after"),
    ]
    assert 0 < np.abs(run(fast) - run(model)).max() < 0.0005
    assert model.SerializeToString() == before


@pytest.mark.parametrize("operator", ["FastGelu", "Relu"])
def test_a_model_without_exact_gelu_stays_as_it_is(operator: str) -> None:
    notes: list[str] = []
    other = activation(operator)
    assert fast_gelu(other, notes.append) is other
    assert notes == ["no GELU to make faster"]


def test_every_gelu_of_a_model_becomes_fast(load: Load) -> None:
    model = load()
    fast = fast_gelu(model, unexpected)
    before, after = (Counter(node.op_type for node in each.graph.node) for each in (model, fast))
    assert before.pop("BiasGelu") == after.pop("FastGelu") == 2
    assert before == after
    assert 0.9999 < cosines(model, fast, some_tokens()).min() < 1
