"""Many plugins: all are found, and each is read once."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgepack.cli.listed import target_rows
from edgepack.plugins import enabled, entry_points
from edgepack.plugins.host import load_plugins
from edgepack.toml_schema import load_toml

MANY = 50
CODE = """
from importlib.resources import files
from edgepack import api

@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="builder", name="NAME", summary="", make=api.lazy("NAME.builder:make"))]

@api.hookimpl
def edgepack_targets():
    return [files(__name__) / "NAME-one.toml"]
"""
TARGET = """
schema = 1
summary = "the one of NAME"
builder = "NAME"
[platform]
os = "linux"
arch = "x86_64"
"""


def install(folder: Path, count: int) -> None:
    """Lay out so many distributions, as pip does."""
    for number in range(count):
        name = f"plugin_{number:03}"
        package, info = folder / name, folder / f"{name}-1.0.dist-info"
        package.mkdir(parents=True)
        info.mkdir()
        (package / "__init__.py").write_text(CODE.replace("NAME", name))
        (package / f"{name}-one.toml").write_text(TARGET.replace("NAME", name))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[edgepack]\n{name} = {name}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, in which a project file is, that plugins can be installed in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.edgepack]\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def test_fifty_plugins_are_listed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(enabled, "load_toml", counted(load_toml))
    monkeypatch.setattr(entry_points, "_owner", counted(entry_points._owner))
    load_plugins()
    assert len(read) == len(set(read))
    assert {"pyproject.toml", "plugin_000", "plugin_004"} <= set(read)
