"""A small bundle, and keys."""

from pathlib import Path

import pytest
from tests.support.signed import key_in, write_small_bundle

from edgepack.signing.keys import PrivateKey


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small bundle that a test may sign and change."""
    return write_small_bundle(tmp_path / "sample")


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    """Its files are ``key.key`` and ``key.pub``."""
    return key_in(tmp_path)
