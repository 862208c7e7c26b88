"""From operators to a linked file, the one way: request, patched units, what a link of them asks for, the link itself."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.compile.generate import Reduction, generate
from edgepack.foundry.link.composition import Composition, Provenance, compose, unit_of
from edgepack.foundry.link.demand import Demand, find_demand
from edgepack.foundry.link.index import load_index
from edgepack.foundry.link.search import may_define
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.patch import KERNEL_TABLE, OTHER_SOURCES, RuntimeRequest
from edgepack.foundry.symbols import Symbols
from edgepack.foundry.toolchain import HostLibraries

SERVANTS = ("libcxx/", "libcxxabi/", "libprotobuf-lite/", "onnx_proto/")
"""Units that ask for what is trimmed only on behalf of others."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Surroundings of the archive's objects in a link."""

    asked: Collection[str]
    """Symbols that are asked of the archive."""
    libraries: HostLibraries


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """Result of a reduction: what was linked, and why."""

    reduction: Reduction
    demand: Demand
    outside: Outside

    @property
    def objects(self) -> list[Path]:
        return [self.reduction.object_of(name) for name in self.demand.units]

    def composition(self, pieces: Iterable[Piece], library: Path) -> Composition:
        """The record of the library that was linked of it; the map's objects are named relative to the archive's."""
        archive = self.reduction.archive
        table = archive.release.table
        provenance = Provenance(
            version=archive.release.version,
            kind=archive.kind,
            toolchain=archive.toolchain.identity,
            symbols=self.demand.symbols,
            exports=self.outside.asked,
            kernels=self.reduction.kernels,
            roots=self.reduction.roots,
            table=table.unit(archive.units),
            callers=table.callers(archive.sources, self.demand.units),
        )
        return compose(pieces, library, provenance)


Linker = Callable[[Reduced], Sequence[Piece]]
"""Links the objects; what the linker's map says of them, by their paths. May be called several times: the last link is
the one that counts."""


def link_reduced(
    archive: KernelArchive, request: RuntimeRequest, outside: Outside, link: Linker, *, context: BuildContext
) -> Reduced:
    """Have the kernels of the request and all that defines the symbols ``outside`` asks for linked, and no more.

    First it is found what the smallest form would ask for: less of the C++ runtime and of protobuf is linked, unless
    that is lacking. Then it is linked with the table of processor-specific kernels empty, and again with the entries
    that what was linked reads, until that is all. Raises ``UnsupportedModelError`` or ``ToolError``.
    """
    smallest = _reduced(archive, request, outside, context).demand
    request = replace(request, asked=_asked(smallest), undefined=smallest.undefined)
    while True:
        reduced = _reduced(archive, request, outside, context)
        read = request.entries | _entries_read(archive, link(reduced))
        if read == request.entries:
            return reduced
        request = replace(request, entries=read)


def _reduced(
    archive: KernelArchive, request: RuntimeRequest, outside: Outside, context: BuildContext
) -> Reduced:
    reduction = generate(archive, request)
    demand = _demand(reduction, outside, context)
    return Reduced(reduction=reduction, demand=demand, outside=outside)


def _asked(demand: Demand) -> frozenset[str]:
    """Symbols that the library's own units need."""
    own = (found.needs for name, found in demand.symbols.items() if not name.startswith(SERVANTS))
    return frozenset().union(*own)


def _entries_read(archive: KernelArchive, pieces: Sequence[Piece]) -> frozenset[str]:
    """Entries of the table of kernels that what was linked reads, where the toolchain trims the table."""
    if KERNEL_TABLE not in archive.toolchain.trims:
        return frozenset()
    sections = {piece.section for piece in pieces if "/onnxruntime_mlas/" in piece.file and piece.size}
    told: Mapping[str, Sequence[str]] = archive.settings["link"]["readers"]
    live = _live_units(archive, pieces)
    return archive.release.table.entries_read(archive.sources, live, sections, told)


def _live_units(archive: KernelArchive, pieces: Sequence[Piece]) -> set[str]:
    """The units of which something was linked, other than functions that read nothing."""
    root = f"{archive.objects}/"
    trivial = tuple(archive.settings["link"]["trivial"])
    objects = {
        piece.file.removeprefix(root)
        for piece in pieces
        if piece.file.startswith(root) and piece.size and not piece.section.endswith(trivial)
    }
    return {name for name in (unit_of(path) for path in objects) if name in archive.units}


def _demand(reduction: Reduction, outside: Outside, context: BuildContext) -> Demand:
    """Compile what the link asks for. Raises ``ToolError`` when a kernel or a part of the C API cannot be found."""
    archive = reduction.archive
    texts: dict[str, str] = {}

    def compile(names: Collection[str]) -> Mapping[str, Symbols]:
        return archive.compile(names, changed=reduction.jobs, context=context)

    def search(symbols: Collection[str], rest: Collection[str]) -> Collection[str]:
        found = may_define(symbols, {name: archive.sources[name] for name in rest}, texts=texts)
        if not found and any(symbol.startswith("Mlas") for symbol in symbols):
            # Assembly sources make up names by macros.
            found = {name for name in rest if name.startswith("onnxruntime_mlas/")}
        return found

    demand = find_demand(
        reduction.roots,
        outside.asked,
        units=archive.units,
        index=load_index(archive.release, archive.kind, archive.toolchain.arch),
        compile=compile,
        search=search,
        offered=outside.libraries.offered,
        # Some are for types that the whole build is without, and are never asked for.
        expected=reduction.kernels,
    )
    lost = sorted(symbol for symbol in demand.undefined if _is_lost(symbol, outside))
    if lost:
        raise ToolError(
            f"no source of ONNX Runtime {archive.release.version} defines {', '.join(lost[:5])}",
            hint=OTHER_SOURCES,
        )
    return demand


def _is_lost(symbol: str, outside: Outside) -> bool:
    """Whether nothing outside of the archive can define a symbol."""
    return "onnxruntime" in symbol or (symbol in outside.asked and not outside.libraries.and_others)
