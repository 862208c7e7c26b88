"""The program for Windows in the place of the native one: its tests are run under wine, and not on Windows."""

from pathlib import Path

import pytest
from tests.support.windows_sample import not_under_wine, sample  # noqa: F401

from edgepack.plugins.context import HostContext


@pytest.fixture(scope="session")
def native_sample(sample: Path) -> Path:  # noqa: F811
    return sample


@pytest.fixture
def context(shared_context: HostContext) -> HostContext:
    """On the user's cache, where the wine is that `edgepack fetch` brought."""
    return shared_context
