"""The binary format of WebAssembly: modules as sections, and what the passes read of them.

https://webassembly.github.io/spec/core/binary/; object files: tool-conventions, Linking.md. Bytes that are not
understood are kept as they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, IMPORT, CODE, DATA = 0, 2, 10, 11
FUNCTION_KIND = 0


class WasmError(ValueError):
    """Bytes that are no WebAssembly module, or one that is damaged."""


@dataclass(frozen=True, kw_only=True)
class WasmSection:
    """A section as it stands: its number and what is in it."""

    id: int
    content: bytes

    @property
    def name(self) -> str:
        """Name of a custom section; empty for the others."""
        if self.id != CUSTOM:
            return ""
        return Reader(self.content).name()


@dataclass(frozen=True, kw_only=True)
class Import:
    """Import of a module from outside."""

    module: str
    name: str
    kind: int
    """0 function, 1 table, 2 memory, 3 global, 4 tag."""


@dataclass(kw_only=True)
class Reader:
    """Reads numbers, names and vectors one after the other. Raises ``WasmError`` at an early end."""

    data: bytes = field(repr=False)
    position: int = 0

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.data)

    def byte(self) -> int:
        if self.at_end:
            raise WasmError("the module ends in the middle")
        self.position += 1
        return self.data[self.position - 1]

    def bytes(self, count: int) -> bytes:
        if count < 0 or self.position + count > len(self.data):
            raise WasmError("the module ends in the middle")
        self.position += count
        return self.data[self.position - count : self.position]

    def u32(self) -> int:
        """An unsigned number in LEB128, of at most 64 bits."""
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7
            if shift > 63:
                raise WasmError("a number is too long")

    def name(self) -> str:
        return self.bytes(self.u32()).decode("utf-8", "replace")

    def skip_limits(self) -> None:
        """The size of a table or memory."""
        flags = self.u32()
        self.u32()
        if flags & 1:
            self.u32()


def sections(module: bytes) -> list[WasmSection]:
    """The sections of a module, in their order. Raises ``WasmError`` for anything else."""
    if module[: len(MAGIC)] != MAGIC:
        raise WasmError("not a WebAssembly module")
    reader = Reader(module, len(MAGIC))
    found: list[WasmSection] = []
    while not reader.at_end:
        id = reader.byte()
        found.append(WasmSection(id=id, content=reader.bytes(reader.u32())))
    return found


def encode_module(parts: Sequence[WasmSection]) -> bytes:
    pieces = [MAGIC]
    for part in parts:
        pieces += [bytes([part.id]), encode_u32(len(part.content)), part.content]
    return b"".join(pieces)


def encode_u32(value: int) -> bytes:
    """An unsigned number in LEB128, as short as it goes."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def section(parts: Sequence[WasmSection], id: int) -> WasmSection | None:
    """The section with this number, which a module has at most once."""
    return next((part for part in parts if part.id == id), None)


def imports(parts: Sequence[WasmSection]) -> list[Import]:
    """A module's imports, in their order."""
    found = section(parts, IMPORT)
    if found is None:
        return []
    reader = Reader(found.content)
    return [_import(reader) for _ in range(reader.u32())]


def _import(reader: Reader) -> Import:
    module, name, kind = reader.name(), reader.name(), reader.byte()
    if kind in (FUNCTION_KIND, 4):
        if kind == 4:
            reader.byte()
        reader.u32()
    elif kind == 1:
        reader.byte()
        reader.skip_limits()
    elif kind == 2:
        reader.skip_limits()
    elif kind == 3:
        reader.bytes(2)
    else:
        raise WasmError(f"an import of kind {kind}")
    return Import(module=module, name=name, kind=kind)


def imported_functions(parts: Sequence[WasmSection]) -> int:
    """How many functions come before a module's own."""
    return sum(1 for each in imports(parts) if each.kind == FUNCTION_KIND)


def bodies(parts: Sequence[WasmSection]) -> list[bytes]:
    """The code of each of a module's own functions, without its length: locals, then instructions."""
    found = section(parts, CODE)
    return [] if found is None else list(_bodies(Reader(found.content)))


def _bodies(reader: Reader) -> Iterator[bytes]:
    for _ in range(reader.u32()):
        yield reader.bytes(reader.u32())
    if not reader.at_end:
        raise WasmError("the code section does not end where it should")


def function_names(parts: Sequence[WasmSection]) -> dict[int, str]:
    """Index → name of functions, where the module has its name section."""
    found = next((part for part in parts if part.name == "name"), None)
    if found is None:
        return {}
    reader = Reader(found.content)
    reader.name()
    while not reader.at_end:
        kind, content = reader.byte(), Reader(reader.bytes(reader.u32()))
        if kind == 1:
            return {content.u32(): content.name() for _ in range(content.u32())}
    return {}
