"""A little fuzzing for each kind of answer that a bundle's program gives."""

import pytest

from tests.fuzz.answers import SEEDS, fuzz


@pytest.mark.parametrize("kind", SEEDS)
def test_an_answer_is_read_or_an_error_for_people(kind: str) -> None:
    assert fuzz(kind, rounds=range(200), seed=1) == 200
