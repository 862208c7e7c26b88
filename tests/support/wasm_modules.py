"""Small WebAssembly modules, made by hand."""

from collections.abc import Sequence

from edgepack_web.foundry.binary import (
    CODE,
    CUSTOM,
    IMPORT,
    WasmSection,
    encode_module,
    encode_u32,
)

TYPE, FUNCTION, EXPORT = 1, 3, 7
I32, END, CALL, ADD, CONST, LOCAL_GET = 0x7F, 0x0B, 0x10, 0x6A, 0x41, 0x20


def text(value: str) -> bytes:
    return encode_u32(len(value.encode())) + value.encode()


def vector(*items: bytes) -> bytes:
    return encode_u32(len(items)) + b"".join(items)


def module(
    code: Sequence[bytes],
    exports: dict[str, int],
    *,
    imported: Sequence[str] = (),
    extra: Sequence[WasmSection] = (),
) -> bytes:
    """Functions of one number that give one; ``imported`` come first. ``extra`` sections stand before the code."""
    unary = bytes([0x60, 1, I32, 1, I32])
    parts = [WasmSection(id=TYPE, content=vector(unary))]
    if imported:
        rows = (text("env") + text(name) + bytes([0, 0]) for name in imported)
        parts.append(WasmSection(id=IMPORT, content=vector(*rows)))
    parts.append(WasmSection(id=FUNCTION, content=vector(*[encode_u32(0)] * len(code))))
    rows = (text(name) + bytes([0]) + encode_u32(index) for name, index in exports.items())
    parts.append(WasmSection(id=EXPORT, content=vector(*rows)))
    return encode_module(
        [
            *parts,
            *extra,
            WasmSection(id=CODE, content=vector(*(encode_u32(len(body)) + body for body in code))),
        ]
    )


def plus(number: int, *, calls: int | None = None) -> bytes:
    """x → x + number, or f(x) + number; with a local variable that is not used."""
    call = bytes([CALL]) + encode_u32(calls) if calls is not None else b""
    return bytes([1, 2, I32, LOCAL_GET, 0]) + call + bytes([CONST, number, ADD, END])


def custom(name: str, content: bytes = b"") -> WasmSection:
    return WasmSection(id=CUSTOM, content=text(name) + content)


def linking(*symbols: bytes) -> WasmSection:
    table = vector(*symbols)
    return custom("linking", bytes([2, 8]) + encode_u32(len(table)) + table)


__all__ = ["CODE", "custom", "linking", "module", "plus", "text", "vector"]
