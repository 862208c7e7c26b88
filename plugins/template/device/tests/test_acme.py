"""A line is run, with its input and output."""

import subprocess
from typing import Any

import pytest
from edgepack_acme import open_board

from edgepack import api

UNUSED: Any = None
"""The context, which this way does not ask."""


def test_a_line_is_run() -> None:
    board = open_board("acme:board-1", context=UNUSED)
    done = subprocess.run(
        board.words("cat; echo there >&2; exit 3"), input=b"here", capture_output=True, check=False
    )
    board.close()
    assert (done.stdout, done.stderr, done.returncode) == (b"here", b"there\n", 3)


def test_an_address_without_a_board_is_refused() -> None:
    with pytest.raises(api.UsageError):
        open_board("acme:--help", context=UNUSED)
