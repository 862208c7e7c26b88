"""A second of fuzzing for each reader in Python."""

import random
import sys
from pathlib import Path

import pytest

from tests.fuzz.readers import READERS, seeds, try_reader

pytestmark = pytest.mark.tools("python")


@pytest.mark.parametrize("name", READERS)
def test_what_a_stranger_wrote_is_read_or_an_error_for_people(tmp_path: Path, name: str) -> None:
    seed = seeds(Path(sys.executable))[name] if name != "library.so" else library()
    assert try_reader(READERS[name], seed, tmp_path / name, seconds=1, number=random.randrange(1 << 32)) > 0


def library() -> bytes:
    import _json

    return Path(_json.__file__).read_bytes()
