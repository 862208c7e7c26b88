"""The releases of ONNX Runtime, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from edgepack.tables import Number, add_row, table

if TYPE_CHECKING:
    from edgepack.runtimes.versions import KnownRelease

SHOWN = 3
"""Operators that are named; ``--json`` has all."""


def render_releases(releases: Sequence[KnownRelease]) -> Table:
    """A row each: what is here of its wheels and sources, what is compiled, and what it brings."""
    made = table("release", Number("opset"), "wheels", "sources", "compiled", "brings")
    for each in releases:
        wheels = ", ".join(f"{arch} {state}" for arch, state in each.wheels.items())
        name = f"{each.version} (default)" if each.default else each.version
        add_row(
            made,
            name,
            str(each.opset),
            wheels,
            each.sources or "none known",
            ", ".join(each.compiled),
            _short(each),
        )
    return made


def _short(release: KnownRelease) -> str:
    named = [name.removeprefix("com.microsoft.") for name in release.brings]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + more
