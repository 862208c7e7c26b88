"""Pickles read in the test's own process: for many inputs, each of which would start a program."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from edgepack.models.pickles import machine, unpickled


@contextmanager
def read_in_this_process() -> Iterator[None]:
    def answered(path: Path, question: str) -> str:
        return machine.answer(str(path), question)

    with patch.object(unpickled, "answered", answered):
        yield
