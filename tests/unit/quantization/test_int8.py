"""Weights as int8: how far they are off, and that no processor can clip their sums."""

import numpy as np
import pytest

from edgepack.quantization.int8 import WeightRange, quantized_columns, quantized_rows

RANGES: tuple[WeightRange, ...] = ("paired", "full", "reduced")


def matrix(rows: int = 31, columns: int = 17, seed: int = 0) -> np.ndarray:
    values: np.ndarray = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
    return values * np.linspace(0.01, 30, columns, dtype=np.float32)


@pytest.mark.parametrize("weight_range", RANGES)
def test_no_weight_is_off_by_more_than_half_a_step(weight_range: WeightRange) -> None:
    values = matrix()
    integers, scales = quantized_columns(values, weight_range)
    assert integers.dtype == np.int8
    assert scales.shape == (17,)
    assert (np.abs(integers * scales - values) <= 0.501 * scales).all()


def test_each_column_has_a_scale_of_its_own() -> None:
    integers, _ = quantized_columns(matrix(), "full")
    assert (np.abs(integers.astype(int)).max(axis=0) == 127).all()


@pytest.mark.parametrize("weight_range", ["paired", "reduced"])
@pytest.mark.parametrize("seed", range(20))
def test_two_products_fit_into_sixteen_bits(weight_range: WeightRange, seed: int) -> None:
    """What vpmaddubsw adds up: two neighbouring uint8 activations times their int8 weights."""
    integers = np.abs(quantized_columns(matrix(64, 40, seed), weight_range)[0].astype(int))
    assert (integers[0::2] * 255 + integers[1::2] * 255).max() <= 32_767


def test_the_full_range_would_not_fit() -> None:
    integers = np.abs(quantized_columns(matrix(64, 40), "full")[0].astype(int))
    assert (integers[0::2] * 255 + integers[1::2] * 255).max() > 32_767


def test_paired_steps_are_finer_than_reduced_ones() -> None:
    values = matrix(384, 64)
    steps = {name: float(quantized_columns(values, name)[1].mean()) for name in RANGES}
    assert steps["full"] < steps["paired"] < 0.8 * steps["reduced"]


def test_columns_and_rows_of_zeros_stay_zero() -> None:
    values = matrix()
    values[:, 3] = 0
    integers, scales = quantized_columns(values, "paired")
    assert not integers[:, 3].any() and np.isfinite(scales).all()
    rows, factors = quantized_rows(values.T)
    assert not rows[3].any() and np.isfinite(factors).all()


def test_each_row_of_a_table_has_a_scale_of_its_own() -> None:
    values = matrix().T
    rows, scales = quantized_rows(values)
    assert scales.shape == (17, 1)
    assert (np.abs(rows.astype(int)).max(axis=1) == 127).all()
    assert (np.abs(rows * scales - values) <= scales * 0.501).all()


@pytest.mark.parametrize("size", [1e-44, 2.5e-43, 1e-38])
def test_weights_that_are_next_to_nothing_become_zero(size: float) -> None:
    """As training leaves them in channels that it gave up: their steps would be zero, or of a single bit."""
    values = matrix()
    values[:, 3] = np.where(np.arange(31) % 2, size, -size)
    for integers, scales in (quantized_columns(values, "full"), quantized_columns(values, "paired")):
        assert not integers[:, 3].any() and scales.min() > 0
        assert (np.abs(integers[:, 4].astype(int)).max()) >= 63
    assert not quantized_rows(values.T)[0][3].any()


@pytest.mark.parametrize(("weight_range", "largest"), [("full", 127), ("reduced", 63)])
def test_the_largest_integer_of_each_column(weight_range: WeightRange, largest: int) -> None:
    integers, scales = quantized_columns(matrix(), weight_range)
    assert (np.abs(integers.astype(int)).max(axis=0) == largest).all()
    np.testing.assert_allclose(scales, np.abs(matrix()).max(axis=0) / largest, rtol=1e-6)


def test_types_and_the_scale_of_what_is_all_zero() -> None:
    for integers, scales in (
        quantized_columns(np.zeros((4, 2), np.float32), "full"),
        quantized_rows(matrix()),
    ):
        assert integers.dtype == np.int8 and scales.dtype == np.float32
    _, scales = quantized_columns(np.zeros((4, 2), np.float32), "full")
    assert scales == pytest.approx([1 / 127] * 2)
