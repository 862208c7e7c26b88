"""Arrays of sparse vectors, read by SciPy."""

# ruff: noqa: F811

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from tests.unit.runner.test_outputs import TEXTS, arrays, program, said, splade  # noqa: F401

from edgepack.runner.freeze.sample_bundle import DIMENSION

pytestmark = pytest.mark.tools("c++", "python")


def test_arrays_are_what_scipy_reads(splade: Path, tmp_path: Path) -> None:
    lines = said(splade, "--sparse")
    arrays(splade, tmp_path / "out.npz", "--sparse")
    matrix = scipy.sparse.load_npz(tmp_path / "out.npz")
    assert matrix.shape == (len(TEXTS), DIMENSION)
    for row, record in zip(matrix.toarray(), lines, strict=True):
        assert np.flatnonzero(row).tolist() == record["sparse"]["indices"]
        assert row[row > 0].tolist() == pytest.approx(record["sparse"]["values"])
