"""A little fuzzing for each kind of pickle and of change."""

from pathlib import Path

import pytest

from tests.fuzz.pickles import CHANGES, READERS
from tests.fuzz.readers import Change, try_reader


@pytest.mark.sample(2)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["data.pkl", "model_head.pkl"])
def test_a_pickle_of_a_stranger_is_read_or_an_error_for_people(
    tmp_path: Path, name: str, change: Change
) -> None:
    read, make = READERS[name]
    assert try_reader(read, make(), tmp_path / name, rounds=range(100), number=1, change=change) == 100
