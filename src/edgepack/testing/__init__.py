"""For plugin authors: models for tests of their own, and a kit of checks, ``pytest --edgepack-target NAME`` (docs/kit.md)."""

from edgepack.testing.model import write_model, write_static_model

__all__ = ["write_model", "write_static_model"]
