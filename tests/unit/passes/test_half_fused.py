"""Fused and computed in float16, with weights of as many bits as are worth sending."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from tests.support.berts import some_tokens
from tests.support.compare import Load, cosines, unexpected
from tests.support.installed import export_onnx, read_folder
from tests.support.static_models import write_module
from tests.support.tiny import WORDS

from edgepack.errors import TargetError
from edgepack.passes.half_fused import half_fused, pooling_nodes, rounded_mantissas


def test_the_encoder_is_float16_and_the_pooling_float32(load: Load) -> None:
    model = load(fused=True)
    halved = half_fused(model, unexpected)
    assert [output.type.tensor_type.elem_type for output in halved.graph.output] == [TensorProto.FLOAT]
    large = [
        tensor for tensor in halved.graph.initializer if len(tensor.dims) > 1 and np.prod(tensor.dims) > 1
    ]
    assert large
    assert TensorProto.FLOAT not in {tensor.data_type for tensor in large}
    assert {"ReduceSum", "Sqrt"} <= {node.op_type for node in pooling_nodes(model)}
    assert cosines(model, halved, some_tokens()).min() > 0.9999


def test_without_an_encoder_all_of_it_is_converted_and_runs(tmp_path: Path) -> None:
    """A static model as a graph: no type of its values is known, but by inference."""
    source = read_folder(write_module(tmp_path), name="table")
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    notes: list[str] = []
    halved = half_fused(model, notes.append)
    assert notes == ["pooling in float16 too: no encoder is recognised"]
    assert cosines(model, halved, some_tokens(vocabulary=len(WORDS))).min() > 0.999


def test_fewer_bits_are_still_near(load: Load) -> None:
    model = load(fused=True)
    halved = half_fused(model, unexpected, mantissa=8)
    assert cosines(model, halved, some_tokens()).min() > 0.9995
    for tensor in halved.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16 and len(tensor.dims) > 1:
            assert not (numpy_helper.to_array(tensor).view(np.uint16) & 3).any()


def test_rounding_is_to_the_nearest_and_never_beyond_the_largest() -> None:
    values = np.array([1.0, 1.0009765625, 1.001953125, 1.0029296875, -65504.0, 0.0], np.float16)
    assert rounded_mantissas(values, 8).tolist() == [1.0, 1.0, 1.0, 1.00390625, -65408.0, 0.0]
    assert rounded_mantissas(values, 10).tolist() == values.tolist()


def test_bits_that_float16_does_not_have(load: Load) -> None:
    with pytest.raises(TargetError, match="mantissa is 11"):
        half_fused(load(fused=True), unexpected, mantissa=11)
