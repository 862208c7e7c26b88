"""What a reduced library is made of, and why: written down when it is linked, from the linker's map and the symbols.

The linker's map says which parts of which objects were linked; the symbols of the objects say who asked for them. The
record holds both in a hundredth of the map's size, so that it can lie beside a library.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgepack.errors import BundleError
from edgepack.files.store import sha256_of
from edgepack.foundry.link.search import identifiers
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.symbols import Symbols
from edgepack.operators.domains import DOMAINS

COMPOSITION = "composition.json"
SCHEMA = 1
LINKER = "<internal>"
"""What lld calls its own: merged strings, relocations, symbol tables."""

_KERNEL = re.compile(r"ExecutionProvider_(?P<name>\w+?)_(?P<domain>k\w+?Domain)_ver")
_OBJECT = re.compile(r"(\.[0-9a-f]{16})?\.o$")
_LIBRARY_MEMBER = re.compile(r"^.*?([^/]+\.a)\((?:.*/)?([^/()]+)\)$")


@dataclass(frozen=True, kw_only=True)
class Demand:
    """How a member came in: the step before it. An empty ``unit`` stands for the outside."""

    unit: str
    symbol: str
    """The function of the C API or the kernel's registration, or what ``unit`` needs of the member."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """An object that was linked, or a part that the linker made itself."""

    name: str
    """``TARGET/PATH`` of a unit, ``LIBRARY.a(OBJECT)``, or the name of a section of the linker's own."""
    sections: Mapping[str, int]
    """Section of the library → bytes, those that take no room in the file included."""
    operators: tuple[str, ...] = ()
    """The operators that ask for it; empty: every runtime does."""
    by_linker: bool = False


@dataclass(frozen=True, kw_only=True)
class Composition:
    """The record of one library."""

    sha256: str
    version: str
    kind: str
    toolchain: str
    members: tuple[Member, ...]
    steps: Mapping[str, Demand]
    """How every unit came in, also those that members came in by and nothing is left of."""

    def chain(self, name: str) -> list[Demand]:
        """The steps that lead to a unit, from the outside on."""
        steps: list[Demand] = []
        while (asked := self.steps.get(name)) is not None:
            steps.insert(0, asked)
            name = asked.unit
        return steps


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a library came to be, as far as its record says."""

    version: str
    kind: str
    toolchain: str
    symbols: Mapping[str, Symbols]
    """Of the units that were linked."""
    exports: Collection[str]
    kernels: Collection[str]
    """Symbols that the registrations in ``roots`` refer to."""
    roots: Collection[str]
    table: str
    """The unit of the table of processor-specific kernels."""
    callers: Mapping[str, frozenset[str]]
    """The units that call through the table → names of what they call: a kernel in the table is there for its callers,
    not for whoever asks for the table."""


def compose(pieces: Iterable[Piece], library: Path, provenance: Provenance) -> Composition:
    """The record of a library that was just linked; objects are named relative to the kernel archive."""
    graph = _graph(provenance)
    starts = {symbol: unit for symbol in sorted(provenance.exports) if (unit := graph.definer.get(symbol))}
    base = graph.reach(starts)
    roots = {f"registration of {unit}": unit for unit in sorted(provenance.roots)}
    base |= graph.reach(roots, beyond=base)
    wanted: dict[str, dict[str, str]] = defaultdict(dict)
    for symbol in sorted(provenance.kernels):
        if unit := graph.definer.get(symbol):
            wanted[operator_of(symbol)][symbol] = unit
    operators: dict[str, list[str]] = defaultdict(list)
    for operator in sorted(wanted):
        for unit in graph.reach(wanted[operator], beyond=base):
            operators[unit].append(operator)
    every = {symbol: unit for group in wanted.values() for symbol, unit in group.items()}
    steps = {**graph.reach(every, beyond=base), **base}
    return Composition(
        sha256=sha256_of(library),
        version=provenance.version,
        kind=provenance.kind,
        toolchain=provenance.toolchain,
        members=tuple(_members(pieces, operators)),
        steps=steps,
    )


def operator_of(symbol: str) -> str:
    """The operator that a kernel's registration is for: ``MatMul``, ``com.microsoft:BiasGelu``."""
    match = _KERNEL.search(symbol)
    if match is None:
        return symbol
    domain = DOMAINS.get(match["domain"], match["domain"])
    return match["name"] if domain == "ai.onnx" else f"{domain}:{match['name']}"


def write_composition(composition: Composition, path: Path) -> None:
    """Keep a record, as JSON (schema 1)."""
    steps = {name: [asked.unit, asked.symbol] for name, asked in composition.steps.items()}
    table = {**asdict(composition), "schema": SCHEMA, "steps": steps}
    path.write_text(json.dumps(table, indent=0, sort_keys=True), encoding="utf-8")


def read_composition(path: Path) -> Composition:
    """A record that was kept; raises ``BundleError`` when it is damaged or of another schema."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise BundleError(f"{path} was written by another edgepack (schema {data['schema']})")
        return Composition(
            sha256=data["sha256"],
            version=data["version"],
            kind=data["kind"],
            toolchain=data["toolchain"],
            members=tuple(_member(entry) for entry in data["members"]),
            steps={name: Demand(unit=unit, symbol=symbol) for name, (unit, symbol) in data["steps"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{path} cannot be read: {error}", hint="make the library again") from error


def unit_of(path: str) -> str:
    """The unit that an object file in the archive is of: ``UNIT.o``, or ``UNIT.DIGEST.o`` in a special form."""
    return _OBJECT.sub("", path)


@dataclass(frozen=True, kw_only=True)
class _Graph:
    """Which unit asks which for what."""

    needs: Mapping[str, frozenset[str]]
    definer: Mapping[str, str]

    def reach(self, starts: Mapping[str, str], *, beyond: Collection[str] = ()) -> dict[str, Demand]:
        """The units that these symbols' units lead to, each by the shortest way, not through those ``beyond``."""
        steps: dict[str, Demand] = {}
        queue: list[str] = []
        for symbol, unit in starts.items():
            if unit not in steps and unit not in beyond:
                steps[unit] = Demand(unit="", symbol=symbol)
                queue.append(unit)
        for name in queue:  # grows while it is read: breadth first
            for symbol in sorted(self.needs[name]):
                asked = self.definer.get(symbol)
                if asked is not None and asked not in steps and asked not in beyond:
                    steps[asked] = Demand(unit=name, symbol=symbol)
                    queue.append(asked)
        return steps


def _graph(provenance: Provenance) -> _Graph:
    symbols, callers = provenance.symbols, provenance.callers
    definer: dict[str, str] = {}
    for kind in ("defines", "weak"):
        for name in sorted(symbols):
            for symbol in sorted(getattr(symbols[name], kind)):
                definer.setdefault(symbol, name)
    in_table = frozenset().union(*callers.values())
    named = {name: symbol for symbol in definer if (name := _last_name(symbol)) in in_table}
    needs = {
        unit: found.needs | {named[name] for name in callers.get(unit, ()) if name in named}
        for unit, found in symbols.items()
    }
    for root in provenance.roots:
        needs[root] = symbols[root].needs - frozenset(provenance.kernels)
    if provenance.table in needs:
        needs[provenance.table] = symbols[provenance.table].needs - frozenset(named.values())
    return _Graph(needs=needs, definer=definer)


def _last_name(symbol: str) -> str:
    names = identifiers(symbol)
    return names[-1] if names else ""


def _members(pieces: Iterable[Piece], operators: Mapping[str, list[str]]) -> list[Member]:
    sizes: dict[tuple[bool, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for piece in pieces:
        if piece.size:
            sizes[_named(piece)][piece.output] += piece.size
    return [
        Member(
            name=name,
            sections=dict(sorted(sections.items())),
            operators=tuple(operators.get(name, ())),
            by_linker=by_linker,
        )
        for (by_linker, name), sections in sorted(sizes.items())
    ]


def _named(piece: Piece) -> tuple[bool, str]:
    if piece.file == LINKER:
        return True, piece.section
    return False, member_name(piece.file)


def member_name(file: str) -> str:
    """Name of a file of the linker's map: a unit's name, or ``LIBRARY.a(OBJECT)``."""
    inside = _LIBRARY_MEMBER.match(file)
    return f"{inside[1]}({inside[2]})" if inside else unit_of(file)


def _member(entry: Mapping[str, Any]) -> Member:
    return Member(
        name=entry["name"],
        sections={str(section): int(size) for section, size in entry["sections"].items()},
        operators=tuple(entry["operators"]),
        by_linker=entry["by_linker"],
    )
