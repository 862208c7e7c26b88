"""A server, a context that may use it, and a small model."""

from pathlib import Path

import pytest
from tests.support.network import index, online, plain_network, server
from tests.support.tiny import write_model

__all__ = ["index", "online", "plain_network", "server"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder called ``tiny-bert``."""
    return write_model(tmp_path / "tiny-bert")
