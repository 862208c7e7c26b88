"""Operators of opsets that ONNX Runtime 1.21.0 does not know: one by one, and what cannot be said without them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.support.new_operators import CASES, Case, model_of, numbers
from tests.support.newest import EVALUATE, judged

from edgepack.errors import UnsupportedModelError
from edgepack.models.lower.clean import cleaned
from edgepack.models.lower.opset import NEWEST_KNOWN, NEWEST_RUN, lower_opset

FILE = Path("new.onnx")


def run(model: onnx.ModelProto, case: Case) -> Any:
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {name: value for name, value in case.inputs.items() if value.size})[0]


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_lowered(name: str) -> None:
    case = CASES[name]
    lowered = lower_opset(model_of(case), FILE)
    assert lowered.opset_import[0].version == NEWEST_RUN
    assert case.operator not in {node.op_type for node in lowered.graph.node}
    np.testing.assert_allclose(run(lowered, case), case.wanted, atol=2e-6, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.tools("python")
@pytest.mark.parametrize("name", CASES)
def test_the_newest_releases_say_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    file = tmp_path / "new.onnx"
    onnx.save(model_of(case), file)
    feeds = [{name: value for name, value in case.inputs.items() if value.size}]
    ours = run(lower_opset(model_of(case), FILE), case)
    np.testing.assert_allclose(ours, judged(file, feeds, tmp_path, program=EVALUATE)[0], atol=2e-6, rtol=1e-5)
    if case.judge:
        np.testing.assert_allclose(ours, judged(file, feeds, tmp_path)[0], atol=2e-6, rtol=1e-5)


def one(
    operator: str, opset: int, *, outputs: int = 1, inputs: int = 1, **attributes: Any
) -> onnx.ModelProto:
    names = [f"x{at}" for at in range(inputs)]
    node = helper.make_node(operator, names, [f"y{at}" for at in range(outputs)], **attributes)
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4, 5, 8]) for name in names]
    graph = helper.make_graph([node], "one", given, [helper.make_tensor_value_info("y0", 1, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=12)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (one("CumProd", 26, inputs=2), "CumProd of opset 26"),
        (one("BitCast", 26, to=TensorProto.INT32), "BitCast of opset 26"),
        (one("Frobnicate", 24), "Frobnicate of opset 24"),
        (one("SpaceToDepth", 28, blocksize=2, mode="CRD"), "SpaceToDepth with mode of opset 28"),
        (one("Attention", 23, inputs=6), "Attention with a cache of keys and values of opset 23"),
        (one("Attention", 24, inputs=3, outputs=2), "Attention with outputs other than the attention itself of opset 24"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_lowered_is_refused_by_operator_and_opset(model: onnx.ModelProto, said: str) -> None:
    with pytest.raises(UnsupportedModelError) as refused:
        lower_opset(model, FILE)
    assert refused.value.message.startswith(f"new.onnx uses {said}")
    assert refused.value.hint == f"export the model with opset {NEWEST_RUN} or older"


def test_an_opset_that_nobody_knows(tmp_path: Path) -> None:
    onnx.save(one("Relu", 99), tmp_path / "new.onnx")
    with pytest.raises(UnsupportedModelError) as refused:
        cleaned(tmp_path / "new.onnx")
    assert (
        refused.value.message == f"new.onnx is of opset 99; the newest that edgepack knows is {NEWEST_KNOWN}"
    )
    assert refused.value.hint == (
        f"export the model with opset {NEWEST_RUN} or older, or install a newer edgepack"
    )


@pytest.mark.parametrize("opset", range(NEWEST_RUN + 1, NEWEST_KNOWN + 1))
def test_operators_that_only_learned_types_stay_as_they_are(opset: int, tmp_path: Path) -> None:
    """Cos and Sin changed in 22, Reshape in 23 and later, TopK in 24; ONNX Runtime 1.21.0 has their older kernels alone."""
    nodes = [
        helper.make_node("Cos", ["x"], ["cosine"]),
        helper.make_node("Cast", ["cosine"], ["wide"], to=TensorProto.DOUBLE,
                         **({"round_mode": "up"} if opset >= 24 else {})),
        helper.make_node("Cast", ["wide"], ["narrow"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["narrow"], ["y"], perm=[1, 0]),
    ]  # fmt: skip
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])
    graph = helper.make_graph(nodes, "types", [given], [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13)
    onnx.save(model, tmp_path / "types.onnx")
    values = numbers(4, 3)
    made = cleaned(tmp_path / "types.onnx")
    found = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": values})[0]
    np.testing.assert_allclose(found, np.cos(values).T, atol=1e-6)


def test_a_function_of_the_file_is_inlined_and_lowered(tmp_path: Path) -> None:
    """As torch.onnx writes what it was given as one module."""
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("own", 1)]
    function = helper.make_function(
        "own", "Gate", ["a"], ["b"], [helper.make_node("Swish", ["a"], ["b"])], opsets[:1]
    )
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(
        [helper.make_node("Gate", ["x"], ["y"], domain="own")],
        "functions",
        [given],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)
    onnx.save(model, tmp_path / "functions.onnx")
    made = cleaned(tmp_path / "functions.onnx")
    found = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": numbers(2, 3)})[0]
    np.testing.assert_allclose(found, numbers(2, 3) / (1 + np.exp(-numbers(2, 3))), atol=1e-6)


def test_nodes_inside_of_branches_are_lowered(tmp_path: Path) -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Swish", ["x"], [name], alpha=alpha)],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])],
        )
        for name, alpha in (("then", 1.0), ("else", 2.0))
    }
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("asked", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(
        [helper.make_node("If", ["asked"], ["y"], **branches)],
        "branches",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    onnx.save(model, tmp_path / "branches.onnx")
    made = cleaned(tmp_path / "branches.onnx")
    session = onnxruntime.InferenceSession(made.SerializeToString())
    x = numbers(2, 3)
    for asked, alpha in ((True, 1.0), (False, 2.0)):
        found = session.run(None, {"x": x, "asked": np.array(asked)})[0]
        np.testing.assert_allclose(found, x / (1 + np.exp(-alpha * x)), atol=1e-6)


def test_without_lowering_a_graph_stays_in_its_opset_and_its_nodes_get_names(tmp_path: Path) -> None:
    model = one("BitCast", 26, to=TensorProto.INT32)
    model.graph.node[0].name = ""
    onnx.save(model, tmp_path / "new.onnx")
    with pytest.raises(UnsupportedModelError, match="BitCast of opset 26"):
        cleaned(tmp_path / "new.onnx")
    kept = cleaned(tmp_path / "new.onnx", lower=False)
    assert [each.version for each in kept.opset_import if each.domain == ""] == [26]
    assert [node.name for node in kept.graph.node] == [node.output[0] for node in kept.graph.node]
