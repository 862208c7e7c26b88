"""The symbols of WebAssembly object files (tool-conventions, Linking.md)."""

from collections.abc import Sequence
from pathlib import Path

from edgepack.foundry.symbols import Symbols
from edgepack_web.foundry.binary import (
    FUNCTION_KIND,
    Import,
    Reader,
    WasmError,
    WasmSection,
    imports,
    sections,
)

_SYMBOL_TABLE = 8
_WEAK, _LOCAL, _UNDEFINED, _EXPLICIT_NAME = 1, 2, 0x10, 0x40
_FUNCTION, _DATA, _GLOBAL, _SECTION, _TAG, _TABLE = range(6)
_IMPORTED_AS = {_FUNCTION: FUNCTION_KIND, _TABLE: 1, _GLOBAL: 3, _TAG: 4}


def object_symbols(object: Path) -> Symbols:
    """The global symbols of an object file. Raises ``ValueError`` for anything else."""
    return wasm_symbols(object.read_bytes())


def wasm_symbols(module: bytes) -> Symbols:
    """The global symbols of an object file. Raises ``ValueError`` for anything else."""
    parts = sections(module)
    linking = next((part for part in parts if part.name == "linking"), None)
    if linking is None:
        raise WasmError("a WebAssembly module that is no object file")
    reader = Reader(linking.content)
    reader.name()
    if (version := reader.u32()) != 2:
        raise WasmError(f"version {version} of the linking section is not known")
    while not reader.at_end:
        kind, content = reader.byte(), Reader(reader.bytes(reader.u32()))
        if kind == _SYMBOL_TABLE:
            return _symbols(content, parts)
    return Symbols(defines=frozenset(), weak=frozenset(), needs=frozenset())


def _symbols(reader: Reader, parts: Sequence[WasmSection]) -> Symbols:
    defines: set[str] = set()
    weak: set[str] = set()
    needs: set[str] = set()
    taken = imports(parts)
    for _ in range(reader.u32()):
        flags, name = _symbol(reader, taken)
        binding = flags & 3
        if binding == _LOCAL or not name:
            continue
        if flags & _UNDEFINED:
            if binding != _WEAK:
                needs.add(name)
        elif binding == _WEAK:
            weak.add(name)
        else:
            defines.add(name)
    return Symbols(defines=frozenset(defines), weak=frozenset(weak), needs=frozenset(needs))


def _symbol(reader: Reader, taken: Sequence[Import]) -> tuple[int, str]:
    """Flags and name; a section's symbol has none."""
    kind, flags = reader.byte(), reader.u32()
    if kind == _DATA:
        name = reader.name()
        if not flags & _UNDEFINED:
            reader.u32(), reader.u32(), reader.u32()
        return flags, name
    index = reader.u32()
    if kind == _SECTION:
        return flags, ""
    if kind not in _IMPORTED_AS:
        raise WasmError(f"a symbol of kind {kind}")
    if flags & _UNDEFINED and not flags & _EXPLICIT_NAME:
        of_kind = [each.name for each in taken if each.kind == _IMPORTED_AS[kind]]
        return flags, of_kind[index] if index < len(of_kind) else ""
    return flags, reader.name()
