"""A release of ONNX Runtime, as the foundry knows it: all that depends on the version is behind this record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Protocol

from edgepack.foundry.feature_levels import FeatureLevels
from edgepack.foundry.patch import Patch
from edgepack.foundry.sources.pinned import Catalogue, read_catalogue
from edgepack.operators.config import parse_config
from edgepack.records.operators import Operators
from edgepack.toml_schema import load_toml


class KernelTable(Protocol):
    """A table through which processor-specific kernels are called: it names all of them, whatever is called."""

    def placed(self, place: Callable[[Patch], Patch]) -> KernelTable:
        """Path where its patch is for another file."""

    def unit(self, units: Iterable[str]) -> str:
        """The unit that fills the table. Raises ``ToolError`` when there is none."""

    def entries_read(
        self,
        sources: Mapping[str, Path],
        live: Collection[str],
        sections: Collection[str],
        told: Mapping[str, Collection[str]],
    ) -> frozenset[str]:
        """Entries that live units read, of which these sections were linked.

        ``told`` names entries that only some functions read → what is in the functions' names.
        """

    def callers(self, sources: Mapping[str, Path], units: Iterable[str]) -> dict[str, frozenset[str]]:
        """Those of the units that call through the table → the names of the kernels that they may reach."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Release:
    """One release; adding one is adding its room and naming it in ``releases.known``."""

    version: str
    data: tuple[Traversable, ...]
    """Folders of sources.toml, build[-PLATFORM].toml and symbols-KIND[-ARCH].json.zst; of a name the first that has it."""
    overlay: tuple[Patch, ...]
    """What every archive is compiled with; headers are found before upstream's."""
    patches: tuple[Patch, ...]
    """What is made for each runtime, in this order; trims where the toolchain names them."""
    partial_indexes: frozenset[str] = frozenset()
    """Architectures whose symbol indexes know only some units; the others are looked up where the rest is known."""
    api_symbols: str
    """The list of what a shared library exports, in ONNX Runtime's folder."""
    possible: Callable[[Path, str, Operators], Operators]
    """(ONNX Runtime's folder, kind, needs) → with what optimizers may add, where that kind has some."""
    kernels: Callable[[Iterable[str], Operators], tuple[str, ...]]
    """(reduced registrations, needs) → symbols of the kernels that they name. Raises ``UnsupportedModelError``."""
    table: KernelTable
    feature_levels: FeatureLevels
    room: str = ""
    """Digest of the folder that says how this release differs from one that edgepack knows; empty for those."""

    def __repr__(self) -> str:
        return f"Release({self.version!r})"

    def with_data(self, folder: Traversable, *, partial_indexes: Iterable[str] = ()) -> Release:
        """Release with more data, such as a platform brings that it is compiled for otherwise."""
        known = self.partial_indexes.union(partial_indexes)
        return replace(self, data=(folder, *self.data), partial_indexes=known)

    def trim(self, name: str) -> Patch:
        return next(patch for patch in self.patches if patch.trim == name)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The pinned sources."""
        file = self._file("sources.toml")
        assert file is not None, "a release names its sources"
        return read_catalogue(file)

    def build_settings(self, platform: str) -> dict[str, Any]:
        """How it is compiled for a toolchain's platform: by a file of the platform's own where there is one."""
        file = self._file(f"build-{platform}.toml", "build.toml")
        assert file is not None, "a release says how it is compiled"
        return load_toml(file)

    @cached_property
    def precompiled(self) -> dict[str, Any]:
        """Which units may be compiled with a header that was compiled before; empty where nobody measured that."""
        file = self._file("precompiled.toml")
        return load_toml(file) if file else {}

    @cached_property
    def usual(self) -> Operators | None:
        """Operators of the usual encoder, for when no model is known yet; ``None`` where the room does not say."""
        file = self._file("usual.config")
        return parse_config(file.read_text(encoding="utf-8")) if file else None

    def configured_file(self, kind: str, platform: str) -> Traversable | None:
        """File made by configuring for a kind of runtime and a toolchain's platform, where the room brings one."""
        return self._file(f"configured-{kind}-{platform}.json.zst")

    def index_files(self, kind: str, arch: str) -> tuple[Traversable, ...]:
        """The symbol indexes that may know of a kind of build, the best first."""
        own = self._file(f"symbols-{kind}-{arch}.json.zst")
        other = self._file(*(f"symbols-{name}.json.zst" for name in (kind, "minimal")))
        if own and arch not in self.partial_indexes:
            return (own,)
        return tuple(file for file in (own, other) if file)

    def _file(self, *names: str) -> Traversable | None:
        files = (folder / name for name in names for folder in self.data)
        return next((file for file in files if file.is_file()), None)
