"""Small random models, exported and fused."""

from tests.support.compare import load

__all__ = ["load"]
