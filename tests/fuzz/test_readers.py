"""A little fuzzing for each reader in Python."""

import sys
from pathlib import Path

import pytest

from tests.fuzz.models import CHANGES, read_model, sound
from tests.fuzz.readers import READERS, Change, seeds, try_reader

pytestmark = pytest.mark.tools("python")


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", READERS)
def test_what_a_stranger_wrote_is_read_or_an_error_for_people(tmp_path: Path, name: str) -> None:
    seed = seeds(Path(sys.executable))[name] if name != "library.so" else library()
    assert try_reader(READERS[name], seed, tmp_path / name, rounds=range(100), number=1) == 100


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_a_model_of_a_stranger_is_read_or_an_error_for_people(
    tmp_path: Path, name: str, change: Change
) -> None:
    seed, file = sound(tmp_path, name), tmp_path / name
    assert try_reader(read_model, seed, file, rounds=range(3), number=1, change=change) == 3


def library() -> bytes:
    import _json

    return Path(_json.__file__).read_bytes()
