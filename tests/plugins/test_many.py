"""Many plugins: all are found, and each is read once."""

import sys
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


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, in which a project file is, that plugins can be installed in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.edgepack]\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def test_fifty_plugins_are_listed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long that takes is measured by benchmarks/plugins.py."""
    install(site, MANY)
    monkeypatch.syspath_prepend(site)
    listed = target_rows(load_plugins())
    assert len([row for row in listed if row["target"].startswith("plugin_")]) == MANY


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
    monkeypatch.setattr(entry_points, "_owner", counted(entry_points._owner))
    load_plugins()
    assert len(read) == len(set(read))
    assert {"pyproject.toml", "plugin_000", "plugin_004"} <= set(read)
