"""Fixtures for whatever fetches: a server of ours and a context that may use it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgepack.fetch import http
from edgepack.plugins.context import HostContext
from tests.support.serving import Server, serving


@pytest.fixture
def plain_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no token, no endpoint of the user's, and no waiting."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(http, "pause", lambda seconds: None)


@pytest.fixture
def server(plain_network: None) -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def online(context: HostContext) -> HostContext:
    """The test's context, allowed to fetch."""
    return replace(context, offline=False)


@pytest.fixture
def index(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    """The server as pip's only package index: ``/simple``."""
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.base}/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip-cache"))
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_TRUSTED_HOST"):
        monkeypatch.delenv(name, raising=False)
    return server
