"""A unit: one object file of the library, and how it is compiled."""

from dataclasses import dataclass

TREE, BUILD, OVERLAY = "@TREE@", "@BUILD@", "@OVERLAY@"
"""What stands for folders in a unit, so that it is the same wherever they are; toolchains have some of their own."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One object file of the library."""

    name: str
    """``TARGET/PATH``, the path relative to the source tree; the same for every toolchain and kind."""
    source: str
    language: str
    """``C``, ``CXX`` or ``ASM``."""
    flags: tuple[str, ...]
    """Without warnings, source and output; folders as placeholders."""
