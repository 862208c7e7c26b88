"""Rounding to few levels: grids that cover the weights, and ways of rounding that lose less than the nearest."""

import numpy as np
import pytest

from edgepack.passes.int4 import METHODS, least_lossy, packed_nibbles, product_error
from edgepack.quantization.rounding import (
    Grid,
    asymmetric_grid,
    dequantized,
    gptq,
    gptq_both_ways,
    round_to_nearest,
    with_fitted_scales,
)


def weights(inputs: int = 96, outputs: int = 24, seed: int = 0) -> np.ndarray:
    values: np.ndarray = np.random.default_rng(seed).normal(size=(inputs, outputs)).astype(np.float32)
    values *= np.linspace(0.1, 3, outputs, dtype=np.float32)
    values += np.float32(0.05)
    return values


def activations(inputs: int = 96, seed: int = 1) -> np.ndarray:
    """Inputs that go together: a few directions explain most."""
    random = np.random.default_rng(seed)
    mixed: np.ndarray = random.normal(size=(600, 12)) @ random.normal(size=(12, inputs))
    return mixed + 0.1 * random.normal(size=mixed.shape)


@pytest.mark.parametrize("block", [16, 32, 96, 40])
def test_no_weight_is_off_by_more_than_half_a_step(block: int) -> None:
    values = weights()
    grid = asymmetric_grid(values, block=block, bits=4)
    integers = round_to_nearest(grid, values)
    assert integers.min() >= grid.low and integers.max() <= grid.high
    steps = np.repeat(grid.scales, block, axis=0)[: len(values)]
    # A zero point that was rounded may move an end by half a step.
    assert (np.abs(dequantized(grid, integers) - values) <= 1.01 * steps).all()
    assert (grid.zeros == np.rint(grid.zeros)).all()


def test_blocks_have_scales_of_their_own() -> None:
    values = weights()
    values[:32] *= 100
    fine, coarse = (asymmetric_grid(values, block=block, bits=4) for block in (32, 96))
    lost = [
        np.abs(dequantized(grid, round_to_nearest(grid, values)) - values)[32:].mean()
        for grid in (fine, coarse)
    ]
    assert lost[0] < 0.2 * lost[1]


def test_a_fitted_grid_loses_less_and_never_more() -> None:
    values = weights()
    grid = asymmetric_grid(values, block=32, bits=4)
    before, after = (
        ((dequantized(each, round_to_nearest(each, values)) - values) ** 2).sum()
        for each in (grid, with_fitted_scales(grid, values))
    )
    assert after < 0.97 * before


def test_compensation_loses_less_of_the_product() -> None:
    values, taken = weights(), activations()
    grid = asymmetric_grid(values, block=32, bits=4)
    exact = taken @ values
    errors = [
        float(((taken @ dequantized(grid, integers) - exact) ** 2).mean())
        for integers in (round_to_nearest(grid, values), gptq(grid, values, taken.T @ taken))
    ]
    assert errors[1] < 0.3 * errors[0]


def test_inputs_that_are_always_zero_do_no_harm() -> None:
    values, taken = weights(), activations()
    taken[:, 7] = 0
    grid = asymmetric_grid(values, block=32, bits=4)
    assert np.isfinite(gptq(grid, values, taken.T @ taken)).all()


def test_the_way_that_loses_least_is_chosen() -> None:
    values, taken = weights(), activations()
    moments = taken.T @ taken
    best = product_error(values - dequantized(*least_lossy(values, 32, METHODS, moments)), moments)
    each = [
        product_error(values - dequantized(*least_lossy(values, 32, (method,), moments)), moments)
        for method in METHODS
    ]
    assert best == min(each)
    assert len(set(each)) == len(METHODS), "and they differ"


def test_a_column_of_zeros_stays_zero() -> None:
    values = weights()
    values[:, 3] = 0
    grid = with_fitted_scales(asymmetric_grid(values, block=32, bits=4), values)
    assert not dequantized(grid, round_to_nearest(grid, values))[:, 3].any()


def test_the_first_of_two_neighbours_is_in_the_low_half() -> None:
    assert packed_nibbles(np.array([1, 2, 15, 0], np.uint8)).tolist() == [0x21, 0x0F]


def test_a_grid_goes_from_the_smallest_weight_to_the_largest() -> None:
    values = np.array([[-1, 2, 0, -3], [2, 8, 0, -6], [0.5, 4, 0, -3], [9, 9, 9, 9]], np.float32)
    grid = asymmetric_grid(values, block=3, bits=4)
    assert (grid.low, grid.high, grid.block) == (0, 15, 3)
    np.testing.assert_allclose(grid.scales, np.array([[3, 8, 1, 6], [9, 9, 9, 9]]) / 15, rtol=1e-6)
    assert grid.zeros.tolist() == [[5, 0, 0, 15], [0, 0, 0, 0]]
    assert round_to_nearest(grid, values)[0].tolist() == [0, 4, 0, 7]
    np.testing.assert_allclose(dequantized(grid, round_to_nearest(grid, values))[3], [9, 9, 9, 9], rtol=1e-6)


def test_scales_are_fitted_among_shares_of_the_first() -> None:
    values = weights()
    grid = asymmetric_grid(values, block=32, bits=4)
    fitted = with_fitted_scales(grid, values)
    assert fitted.scales.dtype == np.float32
    shares = fitted.scales / grid.scales
    assert shares.min() >= 0.699 and shares.max() <= 1.001
    assert len(np.unique(shares.round(3))) > 2
    nearest = np.abs(shares[..., None] - np.linspace(1, 0.7, 13)).min(axis=-1)
    assert nearest.max() < 1e-5


def one_by_one(grid: Grid, values: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """GPTQ as its paper has it: one input after the other, the inverse taken anew for those that are left."""
    damped = moments + np.eye(len(moments)) * 0.01 * moments.diagonal().mean()
    left, integers = values.astype(np.float64), np.zeros_like(values)
    for row in range(len(values)):
        inverse = np.linalg.inv(damped[row:, row:])
        scale, zero = grid.scales[row // grid.block], grid.zeros[row // grid.block]
        integers[row] = np.clip(np.rint(left[row] / scale) + zero, grid.low, grid.high)
        error = left[row] - (integers[row] - zero) * scale
        left[row:] -= np.outer(inverse[0] / inverse[0, 0], error)
    return integers


@pytest.mark.parametrize("inputs", [40, 96, 150])
def test_compensation_is_that_of_the_paper(inputs: int) -> None:
    """Also where inputs are more than those that are made up for at once."""
    values, taken = weights(inputs), activations(inputs)
    grid = asymmetric_grid(values, block=32, bits=4)
    moments = taken.T @ taken
    before = moments.copy()
    # What is close to the middle of two levels may fall to either side of it.
    assert (gptq(grid, values, moments) == one_by_one(grid, values, moments)).mean() > 0.995
    np.testing.assert_array_equal(moments, before)


def test_an_input_that_is_always_zero_counts_as_one_of_size_one() -> None:
    values = weights(32)
    moments = np.diag(np.where(np.arange(32) == 5, 0.0, 400.0))
    grid = asymmetric_grid(values, block=32, bits=4)
    np.testing.assert_array_equal(gptq(grid, values, moments), round_to_nearest(grid, values))


def test_rounding_both_ways_loses_less_where_outputs_go_together() -> None:
    values = weights(outputs=48)
    inputs = activations().T @ activations()
    outputs = activations(48, seed=2).T @ activations(48, seed=2)
    grid = Grid(
        scales=values.std(axis=0, keepdims=True) / 3,
        zeros=np.zeros((1, 48), np.float32),
        block=len(values),
        low=-127,
        high=127,
    )

    def lost(integers: np.ndarray) -> float:
        errors = dequantized(grid, integers) - values
        return float(np.einsum("io,ij,jp,po->", errors, inputs, errors, outputs, optimize=True))

    nearest, one, both = (
        lost(round_to_nearest(grid, values)),
        lost(gptq(grid, values, inputs)),
        lost(gptq_both_ways(grid, values, inputs, outputs)),
    )
    assert both < 0.9 * one < 0.5 * nearest
    same = gptq_both_ways(grid, values, inputs, np.eye(48))
    np.testing.assert_array_equal(same, gptq(grid, values, inputs), "outputs that do not go together")
