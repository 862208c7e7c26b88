"""Some malformed requests."""

from pathlib import Path

import pytest

from tests.fuzz.readers import Change
from tests.fuzz.requests import CHANGES, fuzz


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_no_request_brings_the_server_down(tmp_path: Path, change: Change) -> None:
    assert fuzz(tmp_path, change, rounds=range(200), number=1) == 200
