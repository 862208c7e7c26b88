"""Softmax and attention written with operators whose bits no processor changes: the same values, and none of the two is left."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.compare import Load, load

from edgepack.models.fuse.fusion import largest_difference
from edgepack.models.ort.session import open_session
from edgepack.quantization.observers import observed
from edgepack.quantization.same_bits import same_bits

__all__ = ["load"]

KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT32}
Arrays = dict[str, np.ndarray]


def graph_of(
    node: onnx.NodeProto, given: Arrays, *, opset: int, weights: Arrays | None = None
) -> onnx.ModelProto:
    """One node whose inputs are the graph's."""
    inputs = [
        helper.make_tensor_value_info(name, KINDS[value.dtype.kind], [None] * value.ndim)
        for name, value in given.items()
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "one", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def operators(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


def assert_same(model: onnx.ModelProto, given: Arrays) -> None:
    written = same_bits(model)
    assert not operators(written) & {"Softmax", "MultiHeadAttention"}
    before, after = (open_session(each.SerializeToString()).run(None, given)[0] for each in (model, written))
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 18, 21])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
def test_shares_along_an_axis_and_over_all_from_one_on(opset: int, axis: int | None) -> None:
    scores = 5 * np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype(np.float32)
    axes: dict[str, Any] = {} if axis is None else {"axis": axis}
    assert_same(
        graph_of(helper.make_node("Softmax", ["x"], ["y"], **axes), {"x": scores}, opset=opset), {"x": scores}
    )


def test_shares_where_an_axis_is_counted_from_the_last_and_a_score_is_of_no_size() -> None:
    scores = np.array([[1, -np.inf, 3e38], [-3.4e38, -3.4e38, -3.4e38]], np.float32)
    for opset in (11, 13):
        node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
        assert_same(graph_of(node, {"x": scores}, opset=opset), {"x": scores})


HIDDEN, HEADS, TOKENS = 24, 4, 6
random = np.random.default_rng(2)
VECTORS: Arrays = {
    name: random.normal(size=(3, TOKENS, HIDDEN)).astype(np.float32) for name in ("query", "key", "value")
}
BIAS = random.normal(size=3 * HIDDEN).astype(np.float32)
MASK = (np.arange(TOKENS)[None, :] < np.array([[TOKENS], [4], [0]])).astype(np.int32)
ADDED = random.normal(size=(1, HEADS, TOKENS, TOKENS)).astype(np.float32)


def attention(*beside: str, outputs: tuple[str, ...] = ("y",), **attributes: Any) -> onnx.NodeProto:
    inputs = ["query", "key", "value", *beside]
    return helper.make_node(
        "MultiHeadAttention", inputs, list(outputs), domain="com.microsoft", num_heads=HEADS, **attributes
    )


@pytest.mark.parametrize("opset", [11, 17, 20])
@pytest.mark.parametrize("bias", ["", "bias"])
@pytest.mark.parametrize("mask", ["", "mask"])
@pytest.mark.parametrize("added", ["", "added"])
@pytest.mark.parametrize(
    "attributes", [{}, {"scale": 0.3}, {"mask_filter_value": -3.4028234663852886e38}, {"unidirectional": 0}]
)
def test_attention_of_each_form(
    opset: int, bias: str, mask: str, added: str, attributes: dict[str, Any]
) -> None:
    given = {**VECTORS, **({"mask": MASK} if mask else {}), **({"added": ADDED} if added else {})}
    model = graph_of(
        attention(bias, mask, added, **attributes), given, opset=opset, weights={"bias": BIAS} if bias else {}
    )
    assert_same(model, given)


def test_attention_whose_values_are_of_another_size() -> None:
    given = {**VECTORS, "value": VECTORS["value"][..., : HIDDEN // 2].copy()}
    assert_same(
        graph_of(attention("bias"), given, opset=17, weights={"bias": BIAS[: HIDDEN // 2 * 5]}), given
    )


@pytest.mark.parametrize(
    ("node", "more"),
    [
        (attention("", "mask"), {"mask": np.array([6, 4, 2], np.int32)}),
        (attention("", "", "", outputs=("y", "keys", "values")), {}),
        (attention(unidirectional=1), {}),
        (attention(), {"key": np.zeros((3, HEADS, TOKENS, HIDDEN // HEADS), np.float32)}),
    ],
)
def test_attention_of_another_form_stays(node: onnx.NodeProto, more: Arrays) -> None:
    model = graph_of(node, {**VECTORS, **more}, opset=17)
    assert operators(same_bits(model)) == {"MultiHeadAttention"}


@pytest.mark.parametrize("fused", [True, False])
def test_a_whole_model_and_what_is_observed_of_it(load: Load, fused: bool) -> None:
    model = load(fused=fused)
    assert operators(model) & {"Softmax", "MultiHeadAttention"}
    written = same_bits(model)
    assert not operators(written) & {"Softmax", "MultiHeadAttention"}
    assert largest_difference(model, written) < 1e-6
    made = next(
        node.output[0] for node in model.graph.node if node.op_type in ("Softmax", "MultiHeadAttention")
    )
    ids = np.arange(8)[None, :]
    feed = {
        each.name: np.ones_like(ids) if "mask" in each.name else ids * ("input" in each.name)
        for each in model.graph.input
    }
    (values,) = observed(model, [made], [feed])
    copy = onnx.ModelProto()
    copy.CopyFrom(written)
    copy.graph.output.append(onnx.ValueInfoProto(name=made))
    np.testing.assert_array_equal(values[made], open_session(copy.SerializeToString()).run([made], feed)[0])
