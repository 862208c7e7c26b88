"""What is compiled: the units of a library, each an object file, and the sources of a program."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TREE, BUILD, OVERLAY = "@TREE@", "@BUILD@", "@OVERLAY@"
"""What stands for folders in a unit, so that it is the same wherever they are; toolchains have some of their own."""
LANGUAGES = {".cc": "CXX", ".c": "C"}
OBJECT = ".o"
"""How an object file's name ends."""


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


@dataclass(frozen=True, kw_only=True)
class ProgramSources:
    """C++ sources of a program; they may include ONNX Runtime's own headers."""

    files: Mapping[str, str]
    """Place, e.g. ``base/json.cc``, → text; headers too. What ends as ``LANGUAGES`` says is compiled; includes are looked for
    from the root.
    """
    output: str
    """Name of the finished file; ``OBJECT``: one object, which programs of others are linked with."""
    exports: tuple[str, ...] = ()
    """Symbols of a shared library; none: a program."""

    @property
    def units(self) -> list[str]:
        """Sources to compile, sorted by file name, whatever folder they are in: the order in which objects are linked shows in the bytes."""
        found = (name for name in self.files if Path(name).suffix in LANGUAGES)
        return sorted(found, key=lambda name: Path(name).name)
