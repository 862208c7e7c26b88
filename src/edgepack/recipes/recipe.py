"""What a recipe is: an ordered list of passes with parameters, under a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgepack.records import Pass

Note = Callable[[str], None]
"""How a pass says that it did something else than what its name promises."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is made small."""

    name: str
    summary: str
    """One line for listings: what it does and what it costs."""
    passes: tuple[Pass, ...]
