"""Models that the installed ONNX Runtime does not run, on a library beside it."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgepack.errors import UnsupportedModelError
from edgepack.models.ort import newer
from edgepack.models.ort.newer import ReleaseSession, session_for
from edgepack.models.ort.releases import stock_release
from edgepack.models.ort.session import open_session
from edgepack.plugins.context import HostContext
from edgepack.runner.freeze.sample_bundle import stock_library
from edgepack.runner.frozen.model.ort import OrtError


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
    ours, theirs = ReleaseSession(stock_library(), content), open_session(content)
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
    # The installed library in the newer one's place refuses it, too: what is said is what was said first.
    with pytest.raises(UnsupportedModelError, match="is of opset 23, ONNX Runtime takes opsets up to 22"):
        session_for(model_of("Erf", opset=23), context=context)
    assert len(asked) == 1
    with pytest.raises(UnsupportedModelError, match="NoSuchOperator"):
        session_for(model_of("NoSuchOperator"), context=context)
    with pytest.raises(UnsupportedModelError, match="opset 23"):
        session_for(model_of("Erf", opset=23))
    assert len(asked) == 1


@pytest.mark.slow
def test_the_true_newer_release_runs_it(online: HostContext) -> None:
    session = session_for(model_of("Swish", opset=24), context=online)
    assert isinstance(session, ReleaseSession)
    assert stock_release("1.24.4").opset >= 24
    x = np.linspace(-2, 2, 7, dtype=np.float32)
    (y,) = session.run(["y"], {"x": x})
    assert np.abs(y - x / (1 + np.exp(-x))).max() < 1e-6
