"""Half a second of fuzzing for each file of a small SPLADE and a small ColBERT model."""

from pathlib import Path

import pytest

from tests.fuzz.further_models import FILES, WRITERS, fuzz
from tests.support.once import made_once

CASES = [(kind, name) for kind, names in FILES.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_model_of_a_stranger_is_read_or_an_error_for_people(
    kind: str, name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sound = made_once(tmp_path_factory, f"fuzz-{kind}", WRITERS[kind])
    assert fuzz(sound, tmp_path, name, seconds=0.5, number=1) > 0
