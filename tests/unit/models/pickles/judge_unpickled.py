"""Pickles of PyTorch and scikit-learn as they are, within the limits."""

from collections.abc import Callable
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from tests.support.recorded import RECORD
from tests.unit.models.pickles.test_unpickled import BIN, HEAD

from edgepack.errors import ModelError
from edgepack.models.heads.setfit import linear_layer
from edgepack.models.pickles.unpickled import read_pickle
from edgepack.models.read.pickled import NAMES
from edgepack.models.read.safetensors import open_tensors

pytestmark = pytest.mark.tools("python", "prlimit")


def test_what_is_shared_counts_each_time(tmp_path: Path) -> None:
    """Weights that are tied are one tensor under two names; of dictionaries of names that are shared there may be many."""
    table = torch.arange(6.0).reshape(2, 3)
    torch.save({"a": table, "b": table, "state": {1: {"step": 2.5}, 0: None}}, tmp_path / BIN)
    found = open_tensors(tmp_path / BIN)
    np.testing.assert_array_equal(found.read("a", (2, 3)), found.read("b", (2, 3)))
    inner = b"(" + b"h\x01" * 900 + b"t"
    file = tmp_path / "shared.bin"
    for times, many in ((900, False), (1300, True)):
        shared = b"]q\x01" + inner + b"q\x02(" + b"h\x02" * times + b"t"
        file.write_bytes(b"\x80\x02" + shared + b"\x87.")
        if many:
            with pytest.raises(ModelError, match="more, or deeper in one another"):
                read_pickle(file, NAMES)
        else:
            assert len(read_pickle(file, NAMES).document[2]) == times


@pytest.mark.parametrize(
    "make",
    [
        lambda: {f"layer.{at}.weight": torch.zeros(2) for at in range(2000)},
        lambda: {"state_dict": torch.nn.Linear(2, 2).state_dict(), "epoch": 1, "loss": [0.5, float("nan")]},
        lambda: torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LSTM(2, 2)).state_dict(),
    ],
    ids=["many", "training", "state"],
)
def test_real_checkpoints_are_within_the_limits(tmp_path: Path, make: Callable[[], object]) -> None:
    torch.save(make(), tmp_path / BIN)
    assert open_tensors(tmp_path / BIN).tensors


def test_a_head_of_a_thousand_labels_is_within_the_limits(tmp_path: Path) -> None:
    made = LogisticRegression(class_weight={0: 1.0, 1: 2.0, "other": 1.0, 2.0: 1.0})
    made.coef_ = np.random.default_rng(0).normal(size=(1000, 512))
    made.intercept_, made.classes_ = np.zeros(1000), np.array([f"label {at}" for at in range(1000)], object)
    joblib.dump(made, tmp_path / HEAD)
    layer = linear_layer(tmp_path / HEAD)
    np.testing.assert_array_equal(layer.weight, made.coef_)
    assert layer.classes == tuple(made.classes_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_the_recorded_head_is_one_of_scikit_learn_s() -> None:
    """``tests/golden/judges/model_head.pkl``, which readers of pickles are tried on."""
    made = joblib.load(RECORD / HEAD)
    assert isinstance(made, LogisticRegression)
    assert (made.classes_.tolist(), made.coef_.shape) == (["a", "b", "c"], (3, 3))
    layer = linear_layer(RECORD / HEAD)
    np.testing.assert_array_equal(layer.weight, made.coef_)
