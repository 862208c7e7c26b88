"""Which archives for browsers can be exported."""

from __future__ import annotations

import pytest
from tests.support.command import edgepack

pytestmark = pytest.mark.tools("python")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--threads"], "--threads is for wasm32"),
        (["--arch", "wasm32", "--kind", "full"], "there are no full runtimes for wasm32"),
    ],
)
def test_what_there_is_no_archive_of(options: list[str], said: str) -> None:
    done = edgepack("runtime", "export", "--offline", *options)
    assert done.returncode == 2
    assert said in done.stderr
