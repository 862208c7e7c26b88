"""Tokens before texts: the same vectors with fewer transpositions, or the model as it was."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.support.berts import onnx_vectors, some_tokens
from tests.support.compare import Load, cosines, unexpected
from tests.support.families import FAMILIES, tokens_of, write_family
from tests.support.installed import export_onnx
from tests.support.quick import quick

from edgepack.models.fuse.fusion import fuse
from edgepack.models.graph.precision import is_batch_dependent
from edgepack.passes.fast_gelu import fast_gelu
from edgepack.passes.int8_dynamic import int8_dynamic
from edgepack.passes.int8_static import int8_static
from edgepack.passes.sequence_first import sequence_first
from edgepack.passes.smooth import smooth
from edgepack.records.model import Pooling
from edgepack.records.recipe import Material

LAYERS = 2
TOGETHER = ("albert", "bert", "roberta", "xlm-roberta", "camembert", "distilbert")
"""Architectures whose attention takes nothing but projections and a mask."""


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", quick(["mean", "cls"], "mean"))
@pytest.mark.parametrize("kind", FAMILIES)
def test_vectors_stay_the_same(tmp_path: Path, kind: str, mode: str) -> None:
    source, _ = write_family(tmp_path / "model", kind, pooling=Pooling(mode=mode))  # type: ignore[arg-type]
    notes: list[str] = []
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    fused = fuse(model, notes.append, attention="MultiHeadAttention", embeddings=False)
    turned = sequence_first(fused, notes.append)
    if kind in TOGETHER:
        assert notes == []
        assert operators(turned)["FusedMatMul"] == 2 * source.config.get("num_hidden_layers", LAYERS)
        assert "MultiHeadAttention" not in operators(turned)
    else:
        assert notes == ["its attention cannot be computed with tokens before texts"]
        assert turned is fused
    tokens = tokens_of(kind, lengths=(9, 30, 2, 12))
    before, after = (onnx_vectors(each.SerializeToString(), tokens) for each in (model, turned))
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_one_transposition_a_layer_is_left(load: Load) -> None:
    turned = operators(sequence_first(load(), unexpected))
    around = 4  # ids, token types, positions, and the vectors that are pooled
    assert turned["Transpose"] == LAYERS + around


def test_a_graph_that_was_not_fused_stays_as_it_is(load: Load) -> None:
    notes: list[str] = []
    model = load(fused=False)
    assert sequence_first(model, notes.append) is model
    assert len(notes) == 1


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_integer_products_add_the_bias(load: Load, activation: str) -> None:
    model = load(hidden_act=activation)
    pairs = int8_static(model, unexpected, Material())
    integers = int8_static(model, unexpected, Material(), form="integer")
    assert operators(integers)["MatMulIntegerToFloat"] == 6 * LAYERS
    assert "DequantizeLinear" not in operators(integers)
    products = [node for node in integers.graph.node if node.op_type == "MatMulIntegerToFloat"]
    assert sum(len(node.input) == 7 for node in products) == 3 * LAYERS, "attention adds its own bias"
    assert cosines(pairs, integers, some_tokens()).min() > 0.99999


@pytest.mark.parametrize("steady", [True, False])
def test_together_they_stay_near_and_the_same_in_any_batch(load: Load, steady: bool) -> None:
    model = load()
    made = fast_gelu(sequence_first(smooth(model, unexpected), unexpected), unexpected)
    made = int8_static(
        made, unexpected, Material(), form="integer", activations="steady" if steady else "all"
    )
    made = int8_dynamic(made, unexpected) if steady else made
    assert operators(made)["MatMulIntegerToFloat"] == 6 * LAYERS
    assert operators(made)["QuantizeLinear"] == 4 * LAYERS
    assert cosines(model, made, some_tokens()).min() > 0.97
    assert not is_batch_dependent(made)
