"""Gradients of vectors: what differences of vectors say, and operators that have none."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from tests.support.compare import Load, load
from tests.support.families import write_family
from tests.support.installed import export_onnx

from edgepack.errors import UnsupportedModelError
from edgepack.models.fuse.fusion import fuse
from edgepack.models.graph.sample_inputs import random_tokens
from edgepack.quantization.gradients import differentiable, gradients, runs

__all__ = ["load"]

ROW, NUDGE = 7, 1e-3


def moved(model: onnx.ModelProto, table: str, by: np.ndarray) -> onnx.ModelProto:
    """The model with one row of a table moved."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    tensor = next(each for each in copy.graph.initializer if each.name == table)
    values = numpy_helper.to_array(tensor).copy()
    values[ROW] += by
    tensor.CopyFrom(numpy_helper.from_array(values, table))
    return copy


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("fused", [True, False])
def test_gradients_are_what_small_steps_change(load: Load, activation: str, fused: bool) -> None:
    model = load(fused=fused, hidden_act=activation)
    if not fused:
        with pytest.raises(UnsupportedModelError, match="has no gradient here"):
            differentiable(model, ["embeddings.words"])
        return
    lookup = next(node for node in model.graph.node if "word_embeddings" in node.input[0])
    (feed,) = random_tokens(model, 1)
    feed["input_ids"][0, 1] = ROW
    random = np.random.default_rng(3)
    made = differentiable(model, [lookup.output[0]])
    (values,) = runs(made, [feed])
    probe = random.normal(size=values[made.output].shape).astype(np.float32)
    found = gradients(made, values, probe)[lookup.output[0]][0, feed["input_ids"][0] == ROW].sum(axis=0)
    by = found / np.linalg.norm(found) * np.float32(NUDGE)

    def probed(sign: int) -> float:
        session = onnxruntime.InferenceSession(moved(model, lookup.input[0], sign * by).SerializeToString())
        return float((session.run(None, feed)[0].astype(np.float64) * probe).sum())

    assert found @ by == pytest.approx((probed(1) - probed(-1)) / 2, rel=0.01)


def test_values_that_do_not_depend_on_what_is_asked_for(load: Load) -> None:
    """The tables of a small vocabulary are not quantized: what comes of them is added to, and nobody asks for its gradient."""
    model = load(fused=True)
    lookup = next(node for node in model.graph.node if "word_embeddings" in node.input[0]).output[0]
    product = next(node for node in model.graph.node if node.op_type == "MatMul").output[0]
    (feed,) = random_tokens(model, 1)
    found = []
    for by in ([product], [product, lookup]):
        made = differentiable(model, by)
        (values,) = runs(made, [feed])
        probe = np.ones_like(values[made.output])
        found.append(gradients(made, values, probe)[product])
    assert np.abs(found[0]).max() > 0
    np.testing.assert_array_equal(found[0], found[1])


def chain(*nodes: Any, **weights: np.ndarray) -> onnx.ModelProto:
    """A graph of ``x`` [2, 3, 4] to ``y``."""
    graph = helper.make_graph(
        list(nodes),
        "chain",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3, 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


AXIS = np.array([1], np.int64)
FIRST = np.array(0, np.int64)
EVEN = np.linspace(0.5, 2, 4, dtype=np.float32)
NODES: dict[str, tuple[list[str], dict[str, Any], dict[str, np.ndarray]]] = {
    "first token": (["Gather", "v", "first"], {"axis": 1}, {"first": FIRST}),
    "mean": (["ReduceMean", "v"], {"axes": [1], "keepdims": 0}, {}),
    "sum": (["ReduceSum", "v", "axis"], {"keepdims": 1}, {"axis": AXIS}),
    "transposed": (["Transpose", "v"], {"perm": [2, 0, 1]}, {}),
    "less": (["Sub", "even", "v"], {}, {"even": EVEN}),
    "share": (["Div", "even", "v"], {}, {"even": EVEN}),
    "root": (["Sqrt", "v"], {}, {}),
    "tanh": (["Tanh", "v"], {}, {}),
    "sigmoid": (["Sigmoid", "v"], {}, {}),
    "repeated": (["Expand", "v", "sizes"], {}, {"sizes": np.array([2, 2, 3, 4], np.int64)}),
    "cut": (
        ["Slice", "v", "one", "end", "axis", "step"],
        {},
        {"one": AXIS, "end": np.array([9], np.int64), "axis": AXIS, "step": np.array([2], np.int64)},
    ),
    "largest": (["ReduceMax", "v"], {"axes": [1], "keepdims": 0}, {}),
    "chosen": (
        ["Where", "which", "v", "even"],
        {},
        {"which": np.array([True, False, True, True]), "even": EVEN},
    ),
    "left": (
        ["Where", "which", "even", "v"],
        {},
        {"which": np.array([True, False, True, True]), "even": EVEN},
    ),
    "floor": (["Max", "v", "even"], {}, {"even": EVEN}),
    "squares": (["Mul", "v", "v"], {}, {}),
    "root mean square": (["SimplifiedLayerNormalization", "v", "even"], {"axis": -1}, {"even": EVEN}),
}


@pytest.mark.parametrize(
    "kind", ["mpnet", "modernbert", "gte", "nomic_bert", "qwen3", "embedding_gemma2_text", "deberta-v2"]
)
def test_gradients_of_other_families(tmp_path: Path, kind: str) -> None:
    """Distances, windows, rotations, gates and heads that share keys; by the first matrix' product, for its table is a small one."""
    source, _ = write_family(tmp_path / "model", kind, std=0.15)
    exported = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    model = fuse(exported, lambda note: None, attention="MultiHeadAttention", embeddings=False)
    matrix = next(n for n in model.graph.node if n.op_type == "MatMul" and "weight" in n.input[1])
    (feed,) = random_tokens(model, 1)
    made = differentiable(model, [matrix.output[0]])
    (values,) = runs(made, [feed])
    probe = np.random.default_rng(3).normal(size=values[made.output].shape).astype(np.float32)
    found = gradients(made, values, probe)[matrix.output[0]]
    step = found / np.linalg.norm(found) * np.float32(10 * NUDGE)

    def probed(sign: int) -> float:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        product = next(n for n in copy.graph.node if n.output[0] == matrix.output[0])
        product.output[0] = "still"
        copy.graph.initializer.append(numpy_helper.from_array(sign * step, "step"))
        at = list(copy.graph.node).index(product) + 1
        copy.graph.node.insert(at, helper.make_node("Add", ["still", "step"], [matrix.output[0]]))
        session = onnxruntime.InferenceSession(copy.SerializeToString())
        return float((session.run(None, feed)[0].astype(np.float64) * probe).sum())

    assert (found * step).sum() == pytest.approx((probed(1) - probed(-1)) / 2, rel=0.02)


@pytest.mark.parametrize("name", NODES)
def test_gradients_of_one_operator(name: str) -> None:
    (operator, *inputs), attributes, weights = NODES[name]
    ones = np.ones(4, np.float32)
    model = chain(
        helper.make_node("Mul", ["x", "ones"], ["v"]),
        helper.make_node(operator, inputs, ["y"], **attributes),
        ones=ones,
        **weights,
    )
    random = np.random.default_rng(4)
    x = random.uniform(0.3, 3, (2, 3, 4)).astype(np.float32)
    made = differentiable(model, ["v"])
    (values,) = runs(made, [{"x": x}])  # type: ignore[dict-item]
    probe = random.normal(size=values["y"].shape).astype(np.float32)
    found = gradients(made, values, probe)["v"]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for place in ((0, 0, 0), (0, 2, 3), (1, 1, 2)):
        step = np.zeros_like(x)
        step[place] = NUDGE
        changes = [
            (session.run(None, {"x": each})[0].astype(np.float64) * probe).sum()
            for each in (x + step, x - step)
        ]
        assert found[place] == pytest.approx((changes[0] - changes[1]) / (2 * NUDGE), rel=0.02, abs=2e-3)


def test_an_operator_without_a_rule_is_named(load: Load) -> None:
    with pytest.raises(UnsupportedModelError, match="the operator Attention has no gradient here") as caught:
        model = load(attention="Attention")
        differentiable(
            model, [next(n.output[0] for n in model.graph.node if "word_embeddings" in n.input[0])]
        )
    assert "int8-smallest" in str(caught.value.hint)
