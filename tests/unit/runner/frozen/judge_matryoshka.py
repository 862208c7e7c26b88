"""Shortened vectors as PyTorch makes them."""

from array import array
from pathlib import Path

import numpy as np
import pytest
from tests.unit.runner.frozen.test_matryoshka import bundle_with

from edgepack.runner.frozen.model.matryoshka import MatryoshkaTruncation

pytestmark = pytest.mark.tools("c++", "python")


def test_after_a_layer_normalisation_it_is_what_torch_makes(copy: Path) -> None:
    import torch

    numbers = np.random.default_rng(1).normal(size=8).astype(np.float32)
    whole = torch.tensor(numbers)
    centred = torch.nn.functional.layer_norm(whole, (8,))[:4]
    expected = torch.nn.functional.normalize(centred, dim=0).numpy()
    shorten = MatryoshkaTruncation(bundle_with(copy, {"dimensions": [4], "layer_norm": True}), 4)
    assert np.array(shorten(array("f", numbers.tobytes()))) == pytest.approx(expected, abs=1e-5)
