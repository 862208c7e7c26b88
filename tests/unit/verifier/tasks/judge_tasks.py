"""Ranks as SciPy compares them."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from edgepack.verifier.tasks.sts import spearman


def test_ranks_are_compared_as_scipy_does_it() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        one, other = random.integers(0, 9, 50).astype(float), random.integers(0, 9, 50).astype(float)
        assert spearman(one, other) == pytest.approx(spearmanr(one, other).statistic)
