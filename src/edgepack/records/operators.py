"""Operator kernels: what a model needs, or what a runtime provides."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, order=True)
class Operator:
    """One operator kernel that a model needs, as ONNX Runtime's reduced-build config names it."""

    domain: str
    """``ai.onnx``, ``com.microsoft``, …"""
    since: int
    """Opset version of the registration that is asked for."""
    name: str
    types: str = ""
    """Canonical JSON (sorted keys and lists, no spaces) of the type restrictions; empty: all types."""


@dataclass(frozen=True, kw_only=True)
class Operators:
    """A set of operator kernels: what a model needs, or what a runtime provides."""

    kernels: frozenset[Operator] = frozenset()
    globally_allowed_types: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.kernels)
