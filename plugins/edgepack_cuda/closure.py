"""What the provider needs, read from its ELF file: named, lazily opened, and really imported from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import SYSTEM_LIBRARIES, needed_libraries

DRIVER = ("libcuda.so.1",)
"""What NVIDIA's driver brings, which must be of its kernel module's version."""
HOST = ("libstdc++.so.6", "libgcc_s.so.1")
"""Of the building machine, for devices that need not have them."""
LAZY = re.compile(rb"(?:^|\0)(lib(?:cudnn|cufft|nvrtc|curand|cublas|cublasLt|nvJitLink)[\w-]*\.so[.\d]*)\0")


@dataclass(frozen=True, kw_only=True)
class Wants:
    """The libraries that a file asks for."""

    cuda: tuple[str, ...]
    """Named, and symbols of them are imported."""
    unused: tuple[str, ...]
    """Named, and not one symbol of them is imported."""
    lazy: tuple[str, ...]
    """Opened by name when an operator asks for them: among the constants, not named."""
    host: tuple[str, ...]
    driver: tuple[str, ...]


def wants_of(path: Path) -> Wants:
    """What a library names, by who brings it. Which library a symbol is of is what its version says."""
    named = [name for name in needed_libraries(path) if name not in SYSTEM_LIBRARIES]
    owners = _owners(path)
    cuda = [name for name in named if name not in (*HOST, *DRIVER)]
    lazy = {found.decode() for found in LAZY.findall(path.read_bytes())}
    return Wants(
        cuda=tuple(name for name in cuda if name in owners),
        unused=tuple(name for name in cuda if name not in owners),
        lazy=tuple(sorted(lazy - set(named))),
        host=tuple(name for name in named if name in HOST),
        driver=tuple(name for name in named if name in DRIVER),
    )


def _owners(path: Path) -> set[str]:
    """The libraries whose versions an imported symbol asks for.

    All of CUDA's libraries version all of their symbols; one that did not would look unused, and loading would fail.
    """
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection

    with path.open("rb") as stream:
        file = ELFFile(stream)
        indices = file.get_section_by_name(".gnu.version")
        needs = file.get_section_by_name(".gnu.version_r")
        if not (isinstance(indices, GNUVerSymSection) and isinstance(needs, GNUVerNeedSection)):
            return set()
        used = {symbol["ndx"] for symbol in indices.iter_symbols()}
        return {
            str(need.name)
            for need, versions in needs.iter_versions()
            for version in versions
            if version["vna_other"] in used
        }
