"""Which of the installed plugins are loaded: all, but for what the user or the project rules out."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from edgepack.errors import UsageError
from edgepack.plugins.entry_points import Point
from edgepack.toml_schema import Malformed, check_value, load_toml

VARIABLE = "EDGEPACK_DISABLE_PLUGINS"
"""Names of plugins, separated by commas, or ``*``: none but edgepack's own."""
PROJECT_FILES = (("edgepack.toml", ()), ("pyproject.toml", ("tool", "edgepack")))
"""In the current folder: files, and the tables in them, whose ``plugins`` lists those that a project takes."""


def rules() -> Callable[[Point], str]:
    """Who rules a plugin out, or nothing, for each that is asked about. Those of edgepack itself are always loaded.

    The project's files are read once, and only for plugins of others. What is returned raises ``UsageError``.
    """
    disabled = {name.strip() for name in os.environ.get(VARIABLE, "").split(",")}
    allowed = cache(lambda: [(name, _allowed(Path(name), tables)) for name, tables in PROJECT_FILES])

    def why_not(point: Point) -> str:
        if point.is_ours:
            return ""
        if {"*", point.name} & disabled:
            return VARIABLE
        return next((file for file, names in allowed() if names is not None and point.name not in names), "")

    return why_not


def _allowed(file: Path, tables: tuple[str, ...]) -> tuple[str, ...] | None:
    """The plugins that a project file lists, or None where it lists none."""
    if not file.is_file():
        return None
    try:
        table = load_toml(file)
        for name in tables:
            table = check_value(Mapping[str, Any], table.get(name, {}), name)
        found: tuple[str, ...] | None = (
            check_value(tuple[str, ...], table["plugins"], "plugins") if "plugins" in table else None
        )
    except (OSError, Malformed) as error:
        raise UsageError(f"{file}: {error}", hint='e.g. plugins = ["raspberry"]') from error
    return found
