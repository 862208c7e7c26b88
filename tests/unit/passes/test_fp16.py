"""float16 weights."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.support.berts import some_tokens
from tests.support.compare import Load, cosines, unexpected

from edgepack.models.graph.precision import precision_of
from edgepack.models.ort.convert import convert_to_ort
from edgepack.passes.fp16 import fp16

WIDE = {"hidden_size": 96, "intermediate_size": 384}


def test_half_precision_is_half_the_size_in_the_file_that_is_shipped(load: Load, tmp_path: Path) -> None:
    model = load(vocab_size=4000, **WIDE)
    halved = fp16(model, unexpected)
    assert precision_of(halved) == "fp16"
    converted = convert_to_ort(halved, tmp_path / "model.ort")
    assert converted.stat().st_size < 0.55 * len(model.SerializeToString())
    assert cosines(model, halved, some_tokens()).min() > 0.99999


@pytest.mark.parametrize("attention", ["Attention", "MultiHeadAttention"])
def test_every_matrix_is_halved_whoever_takes_it(load: Load, attention: str) -> None:
    halved = fp16(load(attention=attention), unexpected)
    left = [
        each.name
        for each in halved.graph.initializer
        if each.data_type == onnx.TensorProto.FLOAT and len(each.dims) == 2
    ]
    assert left == []


def test_weights_beyond_half_precision_stay(load: Load) -> None:
    model = load()
    name = "encoder.layer.0.output.dense.weight"
    tensor = next(each for each in model.graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1e6), name))
    notes: list[str] = []
    halved = fp16(model, notes.append)
    assert notes == [f"{name} stays float32: its weights are too large for float16"]
    assert np.isfinite(cosines(model, halved, some_tokens())).all()
