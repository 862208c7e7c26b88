"""The figures of a verification, on arrays whose answer is known."""

import numpy as np
import pytest

from edgepack.verifier.metrics import compare, nearest_neighbours, unit


def at_angles(*degrees: float) -> np.ndarray:
    """Unit vectors in the plane."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_equal_vectors_agree_wholly() -> None:
    vectors = at_angles(0, 10, 90, 95)
    found = compare(vectors, vectors)
    assert len(found.cosines) == 4
    assert found.mean_cosine == found.min_cosine == found.p1_cosine == pytest.approx(1.0)
    assert found.neighbour_agreement == 1.0


def test_cosines_are_those_of_the_angles_between() -> None:
    found = compare(at_angles(0, 60, 100, 170), at_angles(0, 0, 100, 170))
    assert found.min_cosine == pytest.approx(0.5)
    assert found.mean_cosine == pytest.approx((1 + 0.5 + 1 + 1) / 4)


def test_the_first_percentile_is_interpolated() -> None:
    turned = np.zeros(101)
    turned[0], turned[1] = 90.0, 60.0
    found = compare(at_angles(*turned), at_angles(*np.zeros(101)))
    assert found.min_cosine == pytest.approx(0.0, abs=1e-7)
    assert found.p1_cosine == pytest.approx(0.5)


def test_length_does_not_count() -> None:
    reference = at_angles(0, 30, 90, 100)
    found = compare(reference * np.float32(7.5), reference)
    assert found.min_cosine == pytest.approx(1.0)
    assert found.neighbour_agreement == 1.0


def test_agreement_is_the_share_that_keeps_its_nearest_neighbour() -> None:
    # 0 and 10 are neighbours, and 90 and 100; in ours, 10 moved next to 90: 0 keeps 10, 10 loses 0, 90 loses 100.
    found = compare(at_angles(0, 82, 90, 100), at_angles(0, 10, 90, 100))
    assert nearest_neighbours(unit(at_angles(0, 10, 90, 100))).tolist() == [1, 0, 3, 2]
    assert nearest_neighbours(unit(at_angles(0, 82, 90, 100))).tolist() == [1, 2, 1, 2]
    assert found.neighbour_agreement == pytest.approx(0.5)


def test_a_text_is_not_its_own_neighbour() -> None:
    assert nearest_neighbours(unit(at_angles(0, 50, 180))).tolist() == [1, 0, 1]


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        compare(at_angles(0, 1), at_angles(0, 1, 2))
    with pytest.raises(ValueError, match="one shape"):
        compare(at_angles(0), at_angles(0))
