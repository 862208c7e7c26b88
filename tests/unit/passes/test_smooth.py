"""Smoothing: the same function, and less lost when activations are quantized."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import load_file
from tests.support.berts import change_weights, onnx_vectors, some_tokens, write_bert
from tests.support.installed import export_onnx

from edgepack.models.fuse.fusion import fuse
from edgepack.passes.int8_dynamic import int8_dynamic
from edgepack.passes.smooth import smooth


def unexpected(note: str) -> None:
    raise AssertionError(note)


@pytest.fixture
def spiky(tmp_path: Path) -> onnx.ModelProto:
    """A fused model one of whose channels is far larger than the others after every LayerNorm, as in real BERTs."""
    source, _ = write_bert(tmp_path / "model")
    assert source.weights is not None
    changes = {}
    for name, weight in load_file(source.weights).items():
        if name.endswith("LayerNorm.weight"):
            spiked = weight.copy()
            spiked[5] *= 40
            changes[name] = spiked
        elif name.endswith(("query.weight", "key.weight", "value.weight", "intermediate.dense.weight")):
            calmed = weight.copy()
            calmed[:, 5] /= 40
            changes[name] = calmed
    change_weights(source, changes)
    return fuse(
        onnx.load(export_onnx(source, tmp_path / "model.onnx")),
        unexpected,
        attention="MultiHeadAttention",
        embeddings=False,
    )


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_the_function_stays_the_same(spiky: onnx.ModelProto, strength: float) -> None:
    tokens = some_tokens()
    smoothed = smooth(spiky, unexpected, strength=strength)
    # Factors are powers of two: not even the last digit changes.
    np.testing.assert_array_equal(
        onnx_vectors(smoothed.SerializeToString(), tokens),
        onnx_vectors(spiky.SerializeToString(), tokens),
    )
    assert smoothed.SerializeToString() != spiky.SerializeToString()


def test_less_is_lost_when_activations_are_quantized(spiky: onnx.ModelProto) -> None:
    tokens = some_tokens(lengths=(12, 9, 7, 11, 5, 10), seed=8)
    exact = onnx_vectors(spiky.SerializeToString(), tokens)
    lost = {}
    for name, model in (("plain", spiky), ("smoothed", smooth(spiky, unexpected))):
        quantized = onnx_vectors(int8_dynamic(model, unexpected, tables=False).SerializeToString(), tokens)
        lost[name] = 1 - (quantized * exact).sum(axis=1).mean()
    assert lost["smoothed"] < 0.5 * lost["plain"]


def test_matrices_that_take_the_same_activations_share_one_product(spiky: onnx.ModelProto) -> None:
    added = len(smooth(spiky, unexpected).graph.node) - len(spiky.graph.node)
    assert added == 4, (
        "one for query, key and value together, one for the feed-forward part, in each of 2 layers"
    )


def test_the_same_model_is_smoothed_the_same_way(spiky: onnx.ModelProto) -> None:
    first, second = (smooth(spiky, unexpected).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_weights_are_multiplied_by_what_activations_are_divided_by(spiky: onnx.ModelProto) -> None:
    smoothed = smooth(spiky, unexpected)
    before = {each.name: numpy_helper.to_array(each) for each in spiky.graph.initializer}
    after = {each.name: numpy_helper.to_array(each) for each in smoothed.graph.initializer}
    product = next(node for node in smoothed.graph.node if node.name.endswith(".smoothed"))
    taker = next(node for node in smoothed.graph.node if product.output[0] in node.input)
    matrix = taker.input[1]
    factors = after[product.input[1]]
    np.testing.assert_array_equal(after[matrix] * factors[:, None], before[matrix.removesuffix(".smoothed")])
    assert (np.frexp(factors)[0] == 0.5).all(), "powers of two"
    assert factors.argmin() == 5 and factors[5] <= factors.max() / 8, "the large channel, and it alone"


def test_a_graph_without_norms_is_left_as_it_is(spiky: onnx.ModelProto) -> None:
    for node in spiky.graph.node:
        if "LayerNormalization" in node.op_type:
            node.op_type = "Unknown"
    notes: list[str] = []
    assert smooth(spiky, notes.append) is spiky
    assert notes == ["nothing to smooth"]


def test_matrices_of_few_values_keep_them(tmp_path: Path) -> None:
    """Two-bit models (BitNet) have -s, 0 and s in a matrix: neither smoothing nor wide steps leave them."""
    source, _ = write_bert(tmp_path / "model")
    assert source.weights is not None
    ternary = {
        name: (np.rint(np.clip(weight / np.abs(weight).mean(), -1, 1)) * np.abs(weight).mean()).astype(
            np.float32
        )
        for name, weight in load_file(source.weights).items()
        if name.endswith(("dense.weight", "query.weight", "key.weight", "value.weight"))
    }
    change_weights(source, ternary)
    exported = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    fused = fuse(exported, unexpected, attention="MultiHeadAttention", embeddings=False)
    notes: list[str] = []
    quantized = int8_dynamic(
        smooth(fused, notes.append), notes.append, steps=9.2, table_steps=6.6, weighed=True
    )
    integers = [
        numpy_helper.to_array(each)
        for each in quantized.graph.initializer
        if each.name.endswith(".int8") and "embeddings" not in each.name
    ]
    assert len(integers) == len([name for name in ternary if "pooler" not in name])
    assert all(set(np.unique(each)) == {-1, 0, 1} for each in integers)
    assert notes == [
        "nothing to smooth",
        f"{len(integers)} of {len(integers)} matrices have at most 15 values a column, and keep them",
    ]
    cosines = (
        onnx_vectors(quantized.SerializeToString(), some_tokens())
        * onnx_vectors(fused.SerializeToString(), some_tokens())
    ).sum(axis=1)
    assert cosines.min() > 0.995
