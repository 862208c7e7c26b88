"""What passes ask of a graph: which weights they may take, what goes through it, and rows that are gathered as integers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgepack.models.graph.editor import edit
from edgepack.quantization import observers
from edgepack.quantization.embeddings import int8_embedding, is_embedding_lookup
from edgepack.quantization.layers import bias_input, is_chosen, is_weight_matmul, matrix_inputs
from edgepack.quantization.observers import minmax_ranges, observed, second_moments
from edgepack.quantization.per_token import largest_per_token


def graph(
    nodes: Sequence[onnx.NodeProto],
    *,
    outputs: Sequence[str] = ("y",),
    inputs: int = TensorProto.FLOAT,
    opset: int = 17,
    **weights: np.ndarray,
) -> onnx.ModelProto:
    """A graph that takes ``x``."""
    made = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", inputs, None)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=8)


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    values: np.ndarray = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    return values


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_names_and_patterns() -> None:
    assert is_chosen("encoder.layer.0.output.weight", ("nothing", "encoder.layer.0.*"))
    assert not is_chosen("encoder.layer.1.output.weight", ("encoder.layer.0.*",))
    assert not is_chosen("Encoder.layer.0.output.weight", ("encoder.*",)), "letters' cases differ"


def test_products_with_float32_matrices_are_found() -> None:
    nodes = {
        name: helper.make_node(operator, [value, weight], [name])
        for name, operator, value, weight in (
            ("plain", "MatMul", "x", "matrix"),
            ("other", "MatMul", "plain", "second"),
            ("vector", "MatMul", "x", "vector"),
            ("half", "MatMul", "x", "half"),
            ("left", "MatMul", "matrix", "x"),
            ("sum", "Add", "x", "matrix"),
        )
    }
    weights: dict[str, Any] = {
        "matrix": floats(4, 4),
        "second": floats(4, 4),
        "vector": floats(4),
        "half": floats(4, 4).astype(np.float16),
    }
    editor = edit(graph(list(nodes.values()), **weights))
    assert [name for name, node in nodes.items() if is_weight_matmul(editor, node, ("*",))] == [
        "plain",
        "other",
    ]
    assert not is_weight_matmul(editor, nodes["plain"], ("s*",))
    assert matrix_inputs(editor, ("*",)) == {"matrix": "x", "second": "plain"}
    assert matrix_inputs(editor, ("s*",)) == {"second": "plain"}


@pytest.mark.parametrize(
    ("operator", "inputs", "place"),
    [
        ("Add", ["x", "bias"], 1),
        ("Add", ["bias", "x"], 0),
        ("Add", ["x", "matrix"], None),
        ("Add", ["x", "other"], None),
        ("BiasGelu", ["x", "bias"], 1),
        ("FastGelu", ["x", "bias"], 1),
        ("FastGelu", ["x"], None),
        ("SkipLayerNormalization", ["x", "skip", "gamma", "beta", "bias"], 4),
        ("SkipLayerNormalization", ["skip", "x", "gamma", "beta", "bias"], None),
        ("SkipLayerNormalization", ["x", "skip", "gamma", "beta"], None),
        ("Mul", ["x", "bias"], None),
    ],
)
def test_where_a_bias_is_added_to_a_value(operator: str, inputs: list[str], place: int | None) -> None:
    weights: dict[str, Any] = {name: floats(4) for name in ("bias", "gamma", "beta")} | {
        "matrix": floats(4, 4)
    }
    node = helper.make_node(operator, inputs, ["y"])
    assert bias_input(edit(graph([node], **weights)), node, "x") == place


@pytest.mark.parametrize(
    ("operator", "table", "axis", "found"),
    [
        ("Gather", floats(9, 4), None, True),
        ("Gather", floats(9, 4), 0, True),
        ("Gather", floats(9, 4), 1, False),
        ("Gather", floats(9), 0, False),
        ("GatherElements", floats(9, 4), 0, False),
        ("Gather", np.arange(8).reshape(4, 2), 0, False),
    ],
)
def test_lookups_in_tables(operator: str, table: np.ndarray, axis: int | None, found: bool) -> None:
    more: Any = {} if axis is None else {"axis": axis}
    node = helper.make_node(operator, ["table", "x"], ["y"], **more)
    assert is_embedding_lookup(edit(graph([node], table=table)), node) is found


@pytest.mark.parametrize("steps", [0.0, 6.0])
def test_rows_are_gathered_as_integers_and_expanded_after(steps: float) -> None:
    table = floats(50, 400) * np.linspace(0.1, 4, 50, dtype=np.float32)[:, None]
    node = helper.make_node("Gather", ["table", "x"], ["y"], name="words")
    model = graph([node], inputs=TensorProto.INT64, table=table)
    editor = edit(model)
    int8_embedding(editor, node, steps=steps)
    quantized = editor.finish()
    weights = {each.name: numpy_helper.to_array(each) for each in quantized.graph.initializer}
    assert {name: array.dtype for name, array in weights.items()} == {
        "table.int8": np.int8,
        "table.scales": np.float32,
    }
    assert weights["table.int8"].std(axis=1) == pytest.approx([steps] * 50, rel=0.05) or not steps
    ids = np.array([[0, 49, 3], [7, 7, 1]], np.int64)
    steps_of = weights["table.scales"][ids]
    assert (np.abs(run(quantized, ids) - table[ids]) <= 0.501 * steps_of).all()
    names = [each.name for each in quantized.graph.node]
    assert len(set(names)) == 4 and names[-1] == "words" and all(name.startswith("words") for name in names)


@pytest.mark.parametrize(("steps", "rarity"), [(0.0, 0.0), (6.0, 0.0), (6.0, 0.3)])
def test_a_table_in_portions_is_the_same(
    monkeypatch: pytest.MonkeyPatch, steps: float, rarity: float
) -> None:
    """The ranks of rows go on from one portion to the next."""
    table = floats(5000, 8) * np.linspace(0.1, 4, 5000, dtype=np.float32)[:, None]
    node = helper.make_node("Gather", ["table", "x"], ["y"], name="words")
    made = []
    for portion in (1 << 14, 700):
        monkeypatch.setattr("edgepack.quantization.embeddings.ROWS_AT_ONCE", portion)
        editor = edit(graph([node], inputs=TensorProto.INT64, table=table))
        int8_embedding(editor, node, steps=steps, rarity=rarity)
        made.append(editor.finish().SerializeToString(deterministic=True))
    assert made[0] == made[1]


@pytest.mark.parametrize(("opset", "inputs"), [(17, 1), (18, 2)])
def test_the_largest_of_each_token(opset: int, inputs: int) -> None:
    """Axes are an attribute before opset 18, and an input since."""
    editor = edit(graph([], opset=opset))
    assert largest_per_token(editor, "x", "y") == "y"
    (node,) = editor.nodes
    assert len(node.input) == inputs and node.name == "y"
    x = floats(2, 3, 5)
    np.testing.assert_array_equal(run(editor.finish(), x), x.max(axis=-1, keepdims=True))


def doubled() -> onnx.ModelProto:
    """y = 2 · (x + 1)."""
    one, two = (np.array(value, np.float32) for value in (1, 2))
    nodes = [helper.make_node("Add", ["x", "one"], ["more"]), helper.make_node("Mul", ["more", "two"], ["y"])]
    return graph(nodes, one=one, two=two)


def test_values_within_a_graph_are_seen_run_by_run() -> None:
    model = doubled()
    before = model.SerializeToString()
    feeds: Any = [{"x": floats(1, count, 4, seed=count)} for count in (3, 5)]
    seen = list(observed(model, ["more"], feeds))
    assert [list(each) for each in seen] == [["more"], ["more"]]
    for each, feed in zip(seen, feeds, strict=True):
        np.testing.assert_array_equal(each["more"], feed["x"] + 1)
    assert model.SerializeToString() == before


def test_ranges_are_those_of_all_runs() -> None:
    feeds: Any = [{"x": np.array([values], np.float32)} for values in ([-3, 1], [0, 7], [2, 2])]
    assert minmax_ranges(doubled(), ["more", "y"], feeds) == {"more": (-2.0, 8.0), "y": (-4.0, 16.0)}
    assert minmax_ranges(doubled(), ["more"], feeds[1:2]) == {"more": (1.0, 8.0)}, "zero need not be within"


@pytest.mark.parametrize("at_once", [1, 4, None])
def test_second_moments_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch, at_once: int | None) -> None:
    if at_once:
        monkeypatch.setattr(observers, "ROWS_AT_ONCE", at_once)
    feeds: Any = [{"x": floats(1, count, 4, seed=count)} for count in (3, 5, 2, 1)]
    rows = np.concatenate([feed["x"][0] for feed in feeds])
    found = second_moments(doubled(), ["more", "y"], feeds)
    assert {name: array.shape for name, array in found.items()} == {"more": (4, 4), "y": (4, 4)}
    assert all(array.dtype == np.float64 for array in found.values())
    np.testing.assert_allclose(found["more"], (rows + 1).T @ (rows + 1), rtol=1e-5)
    np.testing.assert_allclose(found["y"], 4 * (rows + 1).T @ (rows + 1), rtol=1e-5)


def test_rows_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many texts there are, only so many of their rows are kept."""
    monkeypatch.setattr(observers, "ROWS_AT_ONCE", 4)
    model = doubled()
    feeds: Any = [{"x": floats(1, count, 4)} for count in (4, 3, 1, 3, 3)]
    concatenate, together = np.concatenate, []

    def watched(arrays: Sequence[np.ndarray]) -> np.ndarray:
        together.append(sum(len(each) for each in arrays))
        return concatenate(arrays)

    monkeypatch.setattr(np, "concatenate", watched)
    second_moments(model, ["more"], feeds)
    assert together == [4, 4, 6]
