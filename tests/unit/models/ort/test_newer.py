"""Models that the installed ONNX Runtime does not run, on a library beside it."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.support.newer_models import write_new_model

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.lower import adapt
from edgepack.models.ort import newer
from edgepack.models.ort.c_api import Named, OrtError, Session
from edgepack.models.ort.newer import session_for
from edgepack.models.ort.session import open_session
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.records.target import ModelOptions
from edgepack.runner.freeze.sample_bundle import stock_library


def model_of(operator: str, *, opset: int = 17) -> bytes:
    """x float [n] → y, and k = x's shape."""
    nodes = [helper.make_node(operator, ["x"], ["y"]), helper.make_node("Shape", ["x"], ["k"])]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    made = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("k", TensorProto.INT64, None),
    ]
    graph = helper.make_graph(nodes, "g", given, made)
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
    )
    content: bytes = model.SerializeToString()
    return content


def test_a_library_gives_what_the_package_gives() -> None:
    """Both in one process."""
    content, feed = model_of("Erf"), {"x": np.linspace(-2, 2, 7, dtype=np.float32)}
    ours, theirs = Session(stock_library(), content), open_session(content)
    assert [each.name for each in ours.get_inputs()] == ["x"]
    assert [each.name for each in ours.get_outputs()] == ["y", "k"]
    for mine, other in zip(ours.run(["k", "y"], feed), theirs.run(["k", "y"], feed), strict=True):
        assert mine.dtype == other.dtype and (mine == other).all()
    with pytest.raises(OrtError, match="not fed: x"):
        ours.run(["y"], {})


def test_a_newer_release_is_fetched_only_for_what_it_alone_runs(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def unpacked(wheel: object, *, context: HostContext) -> Path:
        asked.append(wheel)
        return stock_library().parent

    monkeypatch.setattr(newer, "stock_files", unpacked)
    session_for(model_of("Erf"), context=context)
    assert not asked
    # The installed library, in the newer one's place, refuses it, too.
    with pytest.raises(ModelError, match=r"is of opset 23, .* up to 22; 1.\d+.\d+ does not load it either"):
        session_for(model_of("Erf", opset=23), context=context)
    assert len(asked) == 1
    with pytest.raises(UnsupportedModelError, match="NoSuchOperator"):
        session_for(model_of("NoSuchOperator"), context=context)
    with pytest.raises(UnsupportedModelError, match="opset 23"):
        session_for(model_of("Erf", opset=23))
    assert len(asked) == 1


class Newer:
    """A session of a release that runs it."""

    def get_inputs(self) -> list[Named]:
        return [Named("input_ids"), Named("attention_mask")]

    def get_outputs(self) -> list[Named]:
        return [Named("last_hidden_state")]

    def run(self, names: list[str], feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [np.ones((*feed["input_ids"].shape, 8), np.float32)]


def test_only_a_whole_runtime_gets_what_cannot_be_lowered(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then as an .onnx file; what it needs of a reduced runtime is not known."""
    source = write_new_model(tmp_path)
    monkeypatch.setattr(adapt, "session_for", lambda *_, **__: Newer())
    options = ModelOptions(recipe="fp32", format="onnx")
    made = prepare_model(source, options=options, whole_runtime=True, context=context)
    assert made.needs is None
    assert "BitCast" in {node.op_type for node in onnx.load(str(made.file)).graph.node}
    with pytest.raises(UnsupportedModelError, match="BitCast of opset 26"):
        prepare_model(source, options=options, context=context)
    with pytest.raises(UnsupportedModelError) as caught:
        prepare_model(source, options=ModelOptions(recipe="fp32"), whole_runtime=True, context=context)
    assert "--set model.format=onnx" in str(caught.value.hint)
