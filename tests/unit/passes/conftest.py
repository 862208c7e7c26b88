"""The fixtures of recipes serve their passes, too."""

from tests.unit.recipes.conftest import load

__all__ = ["load"]
