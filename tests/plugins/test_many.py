"""Many plugins: what finding them takes."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.plugins import install

from edgepack.cli.listed import target_rows
from edgepack.plugins import chosen, entry_points
from edgepack.plugins.host import load_plugins
from edgepack.typed import load_toml

MANY = 50
MOST = 0.050
"""Seconds that many may add to a listing of targets."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, in which a project file is, that plugins can be installed in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.edgepack]\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def seconds() -> float:
    """CPU time of finding plugins and listing their targets, the least of several."""
    times = []
    for _ in range(5):
        began = time.process_time()
        target_rows(load_plugins())
        times.append(time.process_time() - began)
    return min(times)


def test_fifty_plugins_add_little_to_a_listing(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds()
    before = seconds()
    install(site, MANY)
    monkeypatch.syspath_prepend(site)
    listed = target_rows(load_plugins())
    assert len([row for row in listed if row["target"].startswith("plugin_")]) == MANY
    assert seconds() - before < MOST


def test_what_is_said_once_is_read_once(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, 5)
    monkeypatch.syspath_prepend(site)
    read: list[str] = []

    def counted(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(named: Any) -> Any:
            read.append(named.name)
            return function(named)

        return call

    monkeypatch.setattr(chosen, "load_toml", counted(load_toml))
    monkeypatch.setattr(entry_points, "_read", counted(entry_points._read))
    load_plugins()
    assert len(read) == len(set(read))
    assert {"pyproject.toml", "plugin_000", "plugin_004"} <= set(read)
