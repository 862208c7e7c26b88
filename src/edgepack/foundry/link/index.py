"""The symbol index of a release: where symbols are defined, and which unit leads to which.

Made once from a build of everything and shipped compressed; symbols are kept as short digests, and only those that
some other unit asks for.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from importlib.resources.abc import Traversable

from edgepack.foundry.link.demand import Index
from edgepack.foundry.release import Release
from edgepack.foundry.symbols import Symbols

_DIGEST = 10
"""Hexadecimal digits: 40 bits keep thousands of symbols apart."""


def load_index(release: Release, kind: str, arch: str) -> Index:
    """The index that comes with edgepack, the nearest that there is; an empty one for a release without any."""
    found = Index(definers=lambda _: (), edges={})
    for file in reversed(release.index_files(kind, arch)):
        found = either(_unpacked(file), found)
    return found


def known_units(release: Release) -> frozenset[str]:
    """Every unit that one of a release's indexes knows."""
    files = [path for folder in release.data for path in folder.iterdir() if path.name.startswith("symbols-")]
    return frozenset().union(*(_table(file)["units"] for file in files))


def either(first: Index, second: Index) -> Index:
    """Index that asks the second for what the first does not know."""

    def definers(symbol: str) -> Sequence[str]:
        return first.definers(symbol) or second.definers(symbol)

    return Index(definers=definers, edges={**second.edges, **first.edges})


def _unpacked(file: Traversable) -> Index:
    return _read(_table(file))


def _table(file: Traversable) -> Mapping[str, list[str]]:
    import zstandard

    data = zstandard.ZstdDecompressor().decompress(file.read_bytes(), max_output_size=1 << 26)
    table: Mapping[str, list[str]] = json.loads(data)
    return table


def dump_index(
    known: Mapping[str, Symbols], *, exports: Collection[str] = (), choosing: Collection[str] = ()
) -> bytes:
    """The index of units that have been compiled, as it is shipped (zstandard-compressed JSON).

    ``choosing`` are units of which a runtime has a part only: what they ask for is in the index, but they lead nowhere.
    """
    import zstandard

    units = sorted(known)
    number = {name: position for position, name in enumerate(units)}
    wanted: dict[str, set[str]] = defaultdict(set, {symbol: set() for symbol in exports})
    for name in units:
        for symbol in known[name].needs:
            wanted[symbol].add(name)
    strong: dict[str, list[str]] = defaultdict(list)
    weak: dict[str, list[str]] = defaultdict(list)
    for name in units:
        for symbol in known[name].defines & wanted.keys():
            strong[symbol].append(name)
        for symbol in known[name].weak & wanted.keys():
            weak[symbol].append(name)
    # An inline function is everywhere; who needs one that it does not define itself is served by the first.
    definers = {symbol: strong.get(symbol) or weak[symbol][:1] for symbol in strong.keys() | weak.keys()}
    edges: dict[str, set[str]] = defaultdict(set)
    for symbol, names in definers.items():
        for asking in wanted[symbol].difference(choosing):
            edges[asking] |= {names[0]} - {asking}
    table = {
        "units": units,
        "symbols": {
            _digest(symbol): [number[name] for name in names] for symbol, names in sorted(definers.items())
        },
        "edges": [sorted(number[name] for name in edges[unit]) for unit in units],
    }
    return zstandard.ZstdCompressor(level=19).compress(json.dumps(table, separators=(",", ":")).encode())


def _read(table: Mapping[str, list[str]]) -> Index:
    units: list[str] = table["units"]
    symbols: Mapping[str, list[int]] = table["symbols"]  # type: ignore[assignment]
    edges: list[list[int]] = table["edges"]  # type: ignore[assignment]

    def definers(symbol: str) -> list[str]:
        return [units[number] for number in symbols.get(_digest(symbol), ())]

    return Index(
        definers=definers,
        edges={unit: [units[number] for number in row] for unit, row in zip(units, edges, strict=True)},
    )


def _digest(symbol: str) -> str:
    return hashlib.sha256(symbol.encode()).hexdigest()[:_DIGEST]
