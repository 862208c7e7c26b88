"""Few distinct integers: what they weigh compressed, and that no processor clips them."""

import numpy as np
import pytest

from edgepack.quantization.entropy_coded import (
    entropy_coded_columns,
    entropy_coded_rows,
    reach_of,
    unclipped_pairs,
)


@pytest.fixture
def weights() -> np.ndarray:
    return np.random.default_rng(1).normal(0, 0.04, (64, 24)).astype(np.float32)


def bits(integers: np.ndarray) -> float:
    _, counts = np.unique(integers, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def test_fewer_steps_are_fewer_bits(weights: np.ndarray) -> None:
    fine, _ = entropy_coded_columns(weights, 14.0, None)
    coarse, scales = entropy_coded_columns(weights, 7.0, None)
    assert bits(coarse) == pytest.approx(bits(fine) - 1, abs=0.25)
    assert np.abs(coarse * scales - weights).max() <= scales.max() / 2 + 1e-6


def test_rounding_with_texts_loses_less_of_the_product(weights: np.ndarray) -> None:
    generator = np.random.default_rng(2)
    inputs = generator.normal(size=(500, 8)) @ generator.normal(size=(8, 64))
    moments = inputs.T @ inputs

    def lost(found: tuple[np.ndarray, np.ndarray]) -> float:
        return float(np.linalg.norm(inputs @ (found[0] * found[1] - weights)))

    assert lost(entropy_coded_columns(weights, 4.0, moments)) < 0.7 * lost(
        entropy_coded_columns(weights, 4.0, None)
    )


def test_a_column_with_one_large_weight_still_fits(weights: np.ndarray) -> None:
    weights[3, 5] = 30.0
    integers, scales = entropy_coded_columns(weights, 7.0, np.eye(64))
    assert integers[3, 5] * scales[5] == pytest.approx(30.0, rel=0.01)
    weights[7] = 0.0
    assert not entropy_coded_rows(np.zeros((2, 8), np.float32), 5.0)[0].any()


def test_making_up_for_others_stays_within_int8() -> None:
    """The first input is eighty times the third: what it loses is twenty steps of the third, which is large already."""
    values = np.zeros((64, 2), np.float32)
    values[2] = 127 * 0.85, -127 * 0.85
    values[0] = 0.49, -0.49
    taken = np.zeros((1, 64))
    taken[0, [0, 2]] = 80, 1
    integers, scales = entropy_coded_columns(values, 20.0, taken.T @ taken)
    assert scales == pytest.approx([1.0, 1.0], rel=1e-5)
    assert integers[2].tolist() == [127, -127]


def test_pairs_of_neighbours_stay_below_what_clips() -> None:
    integers = np.array([[127.0, -100.0], [60.0, -20.0], [5.0, 6.0]], np.float32)
    assert unclipped_pairs(integers).tolist() == [[68, -100], [60, -20], [5, 6]]


def test_rows_have_the_steps_that_were_asked_for() -> None:
    table = np.random.default_rng(3).normal(0, [[0.01], [1.0]], (2, 4000)).astype(np.float32)
    integers, scales = entropy_coded_rows(table, 5.0)
    assert integers.std(axis=1) == pytest.approx([5.0, 5.0], rel=0.02)
    assert scales.shape == (2, 1)


@pytest.mark.parametrize("moments", [None, np.eye(64)])
def test_integers_are_int8_and_scales_float32(weights: np.ndarray, moments: np.ndarray | None) -> None:
    for integers, scales in (entropy_coded_columns(weights, 6.0, moments), entropy_coded_rows(weights, 6.0)):
        assert integers.dtype == np.int8 and scales.dtype == np.float32


def test_steps_are_wider_where_the_largest_weight_would_not_fit(weights: np.ndarray) -> None:
    """Of int8, and of what a pair may weigh together, 85 %: rounding that makes up for others may raise it."""
    weights[:, 0] = 0.001
    weights[3, 0] = 3.0
    weights[:, 1] = 0.001
    weights[4:6, 1] = 3.0
    weights[:, 2] = 0.0
    integers, scales = entropy_coded_columns(weights, 100.0, None)
    assert scales[0] == pytest.approx(3.0 / 127 / 0.85, rel=1e-4)
    assert scales[1] == pytest.approx(6.0 / 127.99 / 0.85, rel=1e-4)
    assert scales[2] == 1.0 and not integers[:, 2].any()
    _, usual = entropy_coded_columns(weights, 5.0, None)
    assert usual[3:] == pytest.approx(weights.std(axis=0)[3:] / 5.0, rel=1e-5)
    rows, factors = entropy_coded_rows(weights.T, 1000.0)
    assert (np.abs(rows).max(axis=1)[[0, 1, 3]] == 127).all()
    assert factors[0, 0] == pytest.approx(3.0 / 127, rel=1e-5) and factors[2, 0] == 1.0


def test_neighbours_that_are_equal_and_a_row_without_neighbour() -> None:
    integers = np.array([[-100.0, 64.0, 1.0], [100.0, 64.0, 127.0], [127.0, -127.0, 0.0]], np.float32)
    assert unclipped_pairs(integers).tolist() == [[-28, 64, 1], [100, 64, 127], [127, -127, 0]]
    assert integers[0, 0] == -100.0, "what was given stays"


def test_rows_of_rare_tokens_have_wider_steps() -> None:
    """The first 2,000 are common; the last of a large table have steps 3.5 times as wide."""
    table = np.random.default_rng(4).normal(0, 0.04, (60_000, 16)).astype(np.float32)
    integers, scales = entropy_coded_rows(table, 6.0)
    rarer, wider = entropy_coded_rows(table, 6.0, rarity=0.25)
    assert (rarer[:2001] == integers[:2001]).all()
    shares = (wider / scales)[:, 0]
    assert (np.diff(shares) >= -1e-5).all()
    assert shares[2300] == pytest.approx(2**0.25)
    assert shares[-1] == pytest.approx(3.5)
    assert np.abs(rarer * wider - table).max() <= wider.max() / 2 + 1e-6


def entropy(integers: np.ndarray) -> float:
    shares = np.unique(integers, return_counts=True)[1] / integers.size
    return float(-(shares * np.log2(shares)).sum())


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_bits_that_cost_something_are_spent_where_they_tell(kind: str) -> None:
    """At as many bits less is lost than by narrower steps with bits for nothing."""
    random = np.random.default_rng(4)
    weights = random.normal(size=(400, 64)).astype(np.float32)
    mixed = random.normal(size=(64, 64))
    moments = mixed @ mixed.T

    def rounded(steps: float, bit_cost: float) -> tuple[float, float]:
        if kind == "rows":
            integers, scales = entropy_coded_rows(weights, steps, moments=moments, bit_cost=bit_cost)
            error = integers * scales - weights
        else:
            columns, factors = entropy_coded_columns(
                weights.T, steps, moments, np.eye(400), bit_cost=bit_cost
            )
            integers, error = columns, (columns * factors).T - weights
        return entropy(integers), float(np.einsum("ri,ij,rj->", error, moments, error))

    bits, lost = rounded(1.0, 0.1)
    free = [rounded(steps, 0.0) for steps in (0.8, 0.9, 1.0)]
    assert bits < free[-1][0]
    as_many = np.interp(bits, [each for each, _ in free], [each for _, each in free])
    assert lost < 0.98 * as_many


def test_levels_reach_further_the_fewer_steps_there_are() -> None:
    assert reach_of(np.ones(3, np.float32), 0.0) is None
    reach = reach_of(np.array([0.0, 0.5, 1.0, 4.0], np.float32), 0.1)
    assert reach is not None
    # 0.1 / (2 ln 2) and that over the squares of the steps; a row of zeros has as many as the fewest.
    assert reach == pytest.approx([2.1542, 1.2885, 1.0721, 1.0045], abs=1e-4)
