"""int4 on small random models: near enough, small, and right for shapes that do not divide."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto
from tests.support.berts import onnx_vectors, some_tokens
from tests.support.compare import Load, cosines, unexpected

from edgepack.models.graph.precision import precision_of
from edgepack.models.ort.convert import convert_to_ort
from edgepack.operators.config import operators_of_ort_model
from edgepack.passes.int4 import int4
from edgepack.passes.int8_weights import int8_weights
from edgepack.records.recipe import Material

WIDE = {"seed": 3, "hidden_size": 96, "intermediate_size": 384, "vocab_size": 2000}


@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("rounding", ["nearest", "best"])
def test_vectors_stay_near_the_original(load: Load, block: Any, rounding: Any) -> None:
    model = load(**WIDE)
    quantized = int4(model, unexpected, Material(), block=block, rounding=rounding)
    assert cosines(model, quantized, some_tokens()).min() > (0.93 if block > 32 else 0.96)


def test_calibrated_rounding_loses_less(load: Load) -> None:
    model = load(**WIDE)
    tokens = some_tokens(lengths=(12, 9, 7, 11, 5, 10), seed=8)
    lost = {
        rounding: 1
        - cosines(
            int4(model, unexpected, Material(), rounding=rounding, tables="float"), model, tokens
        ).mean()
        for rounding in ("nearest", "best")
    }
    assert lost["best"] < 0.8 * lost["nearest"]


def test_the_file_is_a_fifth_of_float32(load: Load, tmp_path: Path) -> None:
    model = load(**WIDE)
    quantized = int4(model, unexpected, Material(), rounding="nearest")
    converted = convert_to_ort(quantized, tmp_path / "model.ort")
    assert converted.stat().st_size < len(model.SerializeToString()) / 5
    assert precision_of(quantized) == "int4"
    needs = {kernel.name for kernel in operators_of_ort_model(converted).kernels}
    assert {"MatMulNBits", "GatherBlockQuantized"} <= needs


@pytest.mark.parametrize("hidden", [32, 40, 72])
def test_sizes_that_no_block_divides(load: Load, hidden: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgepack.passes.int4.FEW_ROWS", 30)
    model = load(hidden_size=hidden, intermediate_size=56, num_attention_heads=4)
    quantized = int4(model, unexpected, Material(), block=32, table_block=32)
    assert cosines(model, quantized, some_tokens()).min() > 0.9


@pytest.mark.parametrize(("tables", "kind"), [("int4", TensorProto.INT4), ("int8", TensorProto.INT8)])
def test_tables_as_asked_for(load: Load, tables: Any, kind: int) -> None:
    quantized = int4(load(**WIDE), unexpected, Material(), tables=tables, rounding="nearest")
    kinds = Counter(each.data_type for each in quantized.graph.initializer if each.dims[:1] == [2000])
    assert kinds[kind]


def test_int4_within_and_int8_where_it_hurts(load: Load) -> None:
    """What one pass leaves float32, the next one takes."""
    model = load(**WIDE)
    half = int4(model, unexpected, Material(), layers=("encoder.layer.0.*",), tables="float")
    mixed = int8_weights(half, unexpected, Material())
    operators = Counter(node.op_type for node in mixed.graph.node)
    assert operators["MatMulNBits"] == 6
    assert operators["MatMulIntegerToFloat"] == 12
    tokens = some_tokens()
    all_int4 = int4(model, unexpected, Material())
    assert cosines(mixed, model, tokens).mean() > cosines(all_int4, model, tokens).mean()
    assert onnx_vectors(mixed.SerializeToString(), tokens).shape == (4, 96)
