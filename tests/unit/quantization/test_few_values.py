"""Weights of few values: which matrices are recognised, and that their values stay."""

import numpy as np
import pytest

from edgepack.quantization.entropy_coded import entropy_coded_columns, entropy_coded_rows
from edgepack.quantization.few_values import few_values
from edgepack.quantization.int8 import quantized_columns, quantized_rows


def levels(largest: int, *, seed: int = 0, inputs: int = 64, outputs: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).integers(-largest, largest + 1, (inputs, outputs))


@pytest.mark.parametrize("largest", [1, 2, 7])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_multiples_of_a_step_are_recognised(largest: int, kind: type) -> None:
    integers = levels(largest)
    steps = np.linspace(0.01, 0.3, 12)
    found = few_values((integers * steps).astype(kind).astype(np.float32))
    assert found is not None
    np.testing.assert_array_equal(found[0], integers)
    np.testing.assert_allclose(found[1], steps, rtol=1e-3)


def test_a_column_may_lack_the_first_multiples() -> None:
    integers = levels(3)
    integers[:, 0] = np.where(integers[:, 0] > 0, 3, -2)
    integers[:, 1] = 0
    found = few_values((integers * np.float32(0.0137)).astype(np.float32))
    assert found is not None
    np.testing.assert_array_equal(found[0], integers)


def test_ternary_weights_are_exact() -> None:
    values = levels(1) * np.linspace(0.01, 0.3, 12, dtype=np.float32)
    found = few_values(values)
    assert found is not None
    np.testing.assert_array_equal(found[0] * found[1], values)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(1).normal(size=(64, 12)).astype(np.float32),
        levels(8).astype(np.float32),
        np.zeros((64, 12), np.float32),
        np.zeros((0, 12), np.float32),
        np.where(np.arange(12) == 5, np.random.default_rng(2).normal(size=(64, 12)), levels(1)).astype(
            np.float32
        ),
    ],
    ids=["as trained", "more levels", "zeros", "none", "one column of many values"],
)
def test_others_are_not(values: np.ndarray) -> None:
    assert few_values(values) is None


def test_every_way_to_int8_keeps_them() -> None:
    integers = levels(2)
    values = (integers * np.float32(0.0371)).astype(np.float32)
    moments = np.eye(64)
    for columns in (
        quantized_columns(values, "paired"),
        quantized_columns(values, "reduced"),
        entropy_coded_columns(values, 1.5, moments),
        entropy_coded_columns(values, 1.5, moments, np.eye(12), bit_cost=0.1),
    ):
        np.testing.assert_array_equal(columns[0], integers)
        np.testing.assert_allclose(columns[0] * columns[1], values, rtol=1e-6)
    for rows in (quantized_rows(values.T), entropy_coded_rows(values.T, 1.5, rarity=0.25)):
        np.testing.assert_array_equal(rows[0], integers.T)
        np.testing.assert_allclose(rows[0] * rows[1], values.T, rtol=1e-6)
