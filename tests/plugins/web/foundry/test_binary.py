"""Modules are read exactly, and written back as they were."""

import pytest
from tests.support.wasm_modules import custom, module, plus, text, vector

from edgepack_web.foundry.binary import (
    CODE,
    MAGIC,
    Reader,
    WasmError,
    bodies,
    encode_module,
    encode_u32,
    function_names,
    imported_functions,
    imports,
    section,
    sections,
)

NUMBERS = (0, 1, 63, 64, 127, 128, 129, 16383, 16384, 624485, 2**31, 2**32 - 1)


@pytest.mark.parametrize("number", NUMBERS)
def test_unsigned_numbers_come_back(number: int) -> None:
    assert Reader(encode_u32(number)).u32() == number
    assert len(encode_u32(number)) == max(1, (number.bit_length() + 6) // 7)


def test_a_module_is_read() -> None:
    made = module([plus(1), plus(2, calls=0)], {"f": 1, "g": 2}, imported=["outside"])
    parts = sections(made)
    assert [each.name for each in imports(parts)] == ["outside"]
    assert imported_functions(parts) == 1
    assert bodies(parts) == [plus(1), plus(2, calls=0)]
    assert encode_module(parts) == made


def test_a_module_without_anything_has_nothing() -> None:
    parts = sections(MAGIC)
    assert (parts, bodies(parts), imports(parts)) == ([], [], [])


def test_names_of_functions_are_read_where_there_are_any() -> None:
    names = vector(encode_u32(0) + text("first"), encode_u32(1) + text("zweite, mit Ü"))
    named = custom("name", bytes([0, 3]) + text("ab") + bytes([1]) + encode_u32(len(names)) + names)
    assert function_names(sections(module([plus(1)], {}, extra=[named]))) == {0: "first", 1: "zweite, mit Ü"}
    assert function_names(sections(module([plus(1)], {}))) == {}


def test_sections_of_ones_own_have_names_and_are_kept() -> None:
    made = module([plus(1)], {}, extra=[custom("producers", b"abc")])
    assert [part.name for part in sections(made) if part.id == 0] == ["producers"]
    assert encode_module(sections(made)) == made


@pytest.mark.parametrize("length", range(1, 60, 3))
def test_a_module_that_is_cut_off_is_an_error(length: int) -> None:
    made = module([plus(1), plus(2)], {"f": 0}, imported=["outside"])
    try:
        parts = sections(made[:length])
    except WasmError:
        return
    assert section(parts, CODE) is None, "what was read ends before the code"


@pytest.mark.parametrize("data", [b"", b"\0asm", b"\0asm\2\0\0\0", b"\x7fELF" + bytes(60)])
def test_what_is_no_module_is_refused(data: bytes) -> None:
    with pytest.raises(WasmError, match="not a WebAssembly module"):
        sections(data)


def test_a_number_without_an_end_is_an_error() -> None:
    with pytest.raises(WasmError, match="too long"):
        Reader(b"\xff" * 20).u32()
