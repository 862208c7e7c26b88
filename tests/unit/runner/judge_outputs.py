"""Arrays of sparse vectors, read by SciPy."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from tests.support.given import (
    SPARSE,
    compile_given,
    write_given,
)
from tests.support.once import made_once
from tests.unit.runner.test_outputs import TEXTS, arrays, said

from edgepack.runner.freeze.sample_bundle import DIMENSION

pytestmark = pytest.mark.tools("c++", "python")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return (
        made_once(tmp_path_factory, "given-program", lambda folder: compile_given(folder / "embed")) / "embed"
    )


@pytest.fixture(scope="module")
def splade(sample: Path, tmp_path_factory: pytest.TempPathFactory, program: Path) -> Path:
    """A bundle whose vectors have a number for each token of a vocabulary."""
    folder = tmp_path_factory.mktemp("splade") / "bundle"
    return write_given(sample, folder, SPARSE, program)


def test_arrays_are_what_scipy_reads(splade: Path, tmp_path: Path) -> None:
    lines = said(splade, "--sparse")
    arrays(splade, tmp_path / "out.npz", "--sparse")
    matrix = scipy.sparse.load_npz(tmp_path / "out.npz")
    assert matrix.shape == (len(TEXTS), DIMENSION)
    for row, record in zip(matrix.toarray(), lines, strict=True):
        assert np.flatnonzero(row).tolist() == record["sparse"]["indices"]
        assert row[row > 0].tolist() == pytest.approx(record["sparse"]["values"])
