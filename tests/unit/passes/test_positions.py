"""Whatever a pass does to weights and activations: rotary positions are computed as before, to the last bit."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.support.compare import cosines, unexpected
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx

from edgepack.models.fuse.fusion import fuse
from edgepack.passes.fp16 import fp16
from edgepack.passes.half import half
from edgepack.passes.half_fused import half_fused
from edgepack.passes.trim import trim

Changed = Callable[[onnx.ModelProto], onnx.ModelProto]
FAR = 3000
"""Tokens, of which float16 has no longer each number."""
PASSES: dict[str, Changed] = {
    "fp16": lambda model: fp16(model, unexpected),
    "half": lambda model: half(model, unexpected),
    "half_fused": lambda model: half_fused(fuse(model, unexpected), unexpected),
    "trim": lambda model: trim(model, unexpected, SimpleNamespace(source=None)),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module", params=["modernbert", "qwen3"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> onnx.ModelProto:
    """Both turn vectors by positions, and have layers that look at a window of tokens."""
    folder = tmp_path_factory.mktemp("model")
    source, _ = write_family(folder / "model", request.param)
    return onnx.load(export_onnx(source, folder / "model.onnx"))


def places(model: onnx.ModelProto) -> list[np.ndarray]:
    """Angles, and what is within the window, of a text of ``FAR`` tokens."""
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    kinds = {"Cos": TensorProto.FLOAT, "Sin": TensorProto.FLOAT, "Greater": TensorProto.BOOL}
    found = [
        (node.input[0] if node.op_type != "Greater" else node.output[0], kinds[node.op_type])
        for node in model.graph.node
        if node.op_type in kinds
    ]
    found = list(dict.fromkeys(found))
    asked.graph.output.extend(helper.make_tensor_value_info(name, kind, None) for name, kind in found)
    session = onnxruntime.InferenceSession(asked.SerializeToString(), providers=["CPUExecutionProvider"])
    ids = np.ones((1, FAR), np.int64)
    given = {each.name: ids for each in session.get_inputs()}
    return list(session.run([name for name, _ in found], given))


@pytest.mark.parametrize("name", PASSES)
def test_positions_are_what_they_were(
    name: str, model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float16, neighbours were a radian apart after 2,000 tokens, and windows began elsewhere."""
    monkeypatch.setattr("edgepack.passes.trim.LONG", 4)  # as many as there are frequencies
    changed = PASSES[name](model)
    before, after = places(model), places(changed)
    assert any(each.dtype == np.float32 for each in before) and any(each.dtype == bool for each in before)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    assert cosines(model, changed, tokens_of("modernbert", lengths=(40, 9))).min() > 0.99
