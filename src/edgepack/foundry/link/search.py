"""Which sources may define a symbol, when no index says so: those whose text has its name."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

_KERNEL = re.compile(r"k\w+?ExecutionProvider_(\w+?)_k\w+?Domain_ver")
_SCHEMA = re.compile(r"GetOpSchemaI\w*?\d([A-Za-z]\w*?)_(?:Onnx|Microsoft|MSNchwc)\w*?_ver\d+E")
_STRUCTORS = ("C1", "C2", "D0", "D1", "D2")
_FEW = 8
"""More candidates than this say little: others are tried first."""
_NESTED = re.compile(r"_Z(?:T[VTIS]|GV)?(?:L)?N?[KVRO]*")


def may_define(
    symbols: Collection[str], candidates: Mapping[str, Path], *, texts: dict[str, str] | None = None
) -> set[str]:
    """The candidates (unit → source) whose text fits one of the symbols best. ``texts`` is a cache of sources."""
    cache = {} if texts is None else texts
    for name, path in candidates.items():
        if name not in cache:
            # Registrations often stand in macros of several lines.
            cache[name] = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", "\n")
    telling: set[str] = set()
    vague: set[str] = set()
    for symbol in symbols:
        word, patterns = _patterns(symbol)
        worth = [name for name in candidates if word in cache[name]] if word else []
        for pattern in patterns:
            if fitting := {name for name in worth if pattern.search(cache[name])}:
                (telling if len(fitting) <= _FEW else vague).update(fitting)
                break
    return telling or vague


def identifiers(symbol: str) -> list[str]:
    """The name that a mangled symbol spells, namespace by namespace; a C symbol is its own."""
    start = _NESTED.match(symbol)
    if start is None:
        return [symbol]
    names: list[str] = []
    position = start.end()
    while match := re.compile(r"(?:S[tabsiod])?(\d+)").match(symbol, position):
        length = int(match[1])
        names.append(symbol[match.end() : match.end() + length])
        position = match.end() + length
    if names and symbol[position : position + 2] in _STRUCTORS:
        names.append(names[-1])
    return names


def _patterns(symbol: str) -> tuple[str, list[re.Pattern[str]]]:
    """A word that a defining source has in it, and patterns that it fits, the most telling first."""
    if kernel := _KERNEL.search(symbol):
        operator = kernel[1]
        row = rf"(?:KERNEL|REGISTER|REG_)\w*\(\s*(?:\w+,\s*){{0,4}}{re.escape(operator)}\b"
        return operator, [re.compile(row)]
    if schema := _SCHEMA.search(symbol):
        return schema[1], [re.compile(rf"SCHEMA\w*\(\s*{re.escape(schema[1])}\b")]
    names = identifiers(symbol)
    if not names:
        return "", []
    last = re.escape(names[-1])
    patterns = [rf"\b{re.escape(names[-2])}(?:<[^;{{}}]*?>)?::~?{last}\b"] if len(names) > 1 else []
    if symbol.startswith(("_ZTV", "_ZTT")):
        # A class's table is where its first own virtual function is.
        patterns.append(rf"\b{last}(?:<[^;{{}}]*?>)?::~?\w+\s*\(")
    # A function defined at the beginning of a line, then anything that is called or set up.
    patterns += [rf"(?m)^[A-Za-z_][^\n;=]*\b{last}\s*\(", rf"\b{last}\b\s*[(<={{\[]"]
    return names[-1], [re.compile(pattern) for pattern in patterns]
