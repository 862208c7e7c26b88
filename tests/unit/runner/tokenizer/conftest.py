"""The native program's parts, compiled for the tests."""

from pathlib import Path

import pytest
from tests.support.native import compile_tokenizer_tool
from tests.support.once import made_once


@pytest.fixture(scope="session")
def tokenizer_tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenizer as a program of its own."""
    folder = made_once(
        tmp_path_factory, "tokenizer-tool", lambda folder: compile_tokenizer_tool(folder / "tokens")
    )
    return folder / "tokens"
