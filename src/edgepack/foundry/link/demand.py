"""Which objects a link asks for, found without linking: as an archive linker would, compiling what is missing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgepack.foundry.symbols import Symbols

Compile = Callable[[Collection[str]], Mapping[str, Symbols]]
Search = Callable[[Collection[str], Collection[str]], Collection[str]]


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Units to link, and the symbols that remain undefined."""

    units: tuple[str, ...]
    """Sorted."""
    undefined: frozenset[str]
    """Symbols that neither a unit nor the platform's libraries define."""
    rounds: int
    symbols: Mapping[str, Symbols]
    """Of the units."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """Index of an earlier build of everything: which unit defines a symbol, and which units ask for which.

    It only predicts: what is wrong or missing in it costs another round, never a wrong link.
    """

    definers: Callable[[str], Sequence[str]]
    """Symbol → units."""
    edges: Mapping[str, Sequence[str]]
    """Unit → units that it asked for."""

    def reach(self, names: Iterable[str]) -> set[str]:
        """The units that these lead to, themselves included."""
        seen: set[str] = set()
        queue = list(names)
        while queue:
            name = queue.pop()
            if name not in seen:
                seen.add(name)
                queue.extend(self.edges.get(name, ()))
        return seen


def find_demand(
    roots: Collection[str],
    symbols: Collection[str],
    *,
    units: Collection[str],
    index: Index,
    compile: Compile,
    search: Search,
    offered: Collection[str] = frozenset(),
    expected: Collection[str] = (),
) -> Demand:
    """Compile until every symbol that is asked for is defined, or is nowhere to be found.

    ``roots`` are linked in any case, ``symbols`` are asked for from the start, ``offered`` is what the C library
    defines, ``expected`` will probably be asked for. ``search`` is asked last: (symbols, units not compiled yet) →
    units that may define them.
    """
    known: dict[str, Symbols] = {}
    foretold = {name for symbol in (*symbols, *expected) for name in index.definers(symbol)}
    if unheard := [symbol for symbol in expected if not index.definers(symbol)]:
        foretold |= set(search(unheard, set(units)))
    want = (set(roots) | index.reach(foretold)) & set(units)
    rounds = 0
    while True:
        if want:
            rounds += 1
            known.update(compile(want))
        live, missing = _resolve(roots, symbols, known, offered)
        want = {name for symbol in missing for name in index.definers(symbol)}
        want = (index.reach(want) & set(units)) - known.keys()
        if not want and missing:
            rest = set(units) - known.keys()
            want = set(search(missing, rest)) & rest if rest else set()
        if not want:
            return Demand(
                units=tuple(sorted(live)),
                undefined=frozenset(missing),
                rounds=rounds,
                symbols={name: known[name] for name in live},
            )


def _resolve(
    roots: Collection[str], symbols: Collection[str], known: Mapping[str, Symbols], offered: Collection[str]
) -> tuple[set[str], set[str]]:
    """The units that are linked, and the symbols that none of the known units defines."""
    definer: dict[str, str] = {}
    for name in sorted(known):
        for symbol in known[name].weak:
            definer.setdefault(symbol, name)
    strong: dict[str, str] = {}
    for name in sorted(known):
        for symbol in known[name].defines:
            strong.setdefault(symbol, name)
    definer |= strong
    live: set[str] = set()
    missing = {symbol for symbol in symbols if symbol not in definer and symbol not in offered}
    queue = [name for name in roots if name in known]
    queue += [definer[symbol] for symbol in symbols if symbol in definer]
    while queue:
        name = queue.pop()
        if name in live:
            continue
        live.add(name)
        for symbol in known[name].needs:
            if symbol in definer:
                queue.append(definer[symbol])
            elif symbol not in offered:
                missing.add(symbol)
    return live, missing
