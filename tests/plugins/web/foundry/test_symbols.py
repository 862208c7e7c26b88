"""Symbols of object files, made by hand and by clang."""

import subprocess
from pathlib import Path

import pytest
from tests.support.wasm_modules import linking, module, plus, text

from edgepack.errors import MissingToolError
from edgepack.foundry.toolchains.zig import zig_program
from edgepack_web.foundry.binary import MAGIC
from edgepack_web.foundry.symbols import wasm_symbols

WEAK, LOCAL, UNDEFINED, EXPLICIT = 1, 2, 0x10, 0x40


def test_each_kind_of_symbol_is_told_apart() -> None:
    made = module(
        [plus(1)] * 3,
        {},
        imported=["outside", "inside"],
        extra=[
            linking(
                bytes([0, UNDEFINED, 1]),
                bytes([0, UNDEFINED | EXPLICIT, 0]) + text("renamed"),
                bytes([0, UNDEFINED | WEAK | EXPLICIT, 0]) + text("maybe"),
                bytes([0, 0, 2]) + text("function"),
                bytes([0, WEAK, 3]) + text("inlined"),
                bytes([0, LOCAL, 4]) + text("hidden"),
                bytes([1, 0]) + text("table") + bytes([0, 0, 4]),
                bytes([1, UNDEFINED]) + text("data"),
                bytes([3, LOCAL, 0]),
            )
        ],
    )
    found = wasm_symbols(made)
    assert found.defines == {"function", "table"}
    assert found.weak == {"inlined"}
    assert found.needs == {"inside", "renamed", "data"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (MAGIC, "no object file"),
        (b"\x7fELF", "not a WebAssembly module"),
        (module([plus(1)], {}, extra=[linking(bytes([9, 0, 0]))]), "a symbol of kind 9"),
        (module([plus(1)], {}, extra=[linking(bytes([0, 0, 0, 200]))]), "ends in the middle"),
    ],
    ids=["not linkable", "elf", "kind", "damaged"],
)
def test_what_cannot_be_read_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wasm_symbols(data)


@pytest.mark.tools("zig")
def test_the_compilers_own_objects(tmp_path: Path) -> None:
    try:
        zig = zig_program()
    except MissingToolError:
        pytest.skip("zig is not installed")
    source = tmp_path / "a.cc"
    source.write_text(
        "extern int outside(int); extern int data; static int hidden(int x) { return x * data; }\n"
        "inline int twice(int x) { return 2 * x; }\n"
        "int (*keep)(int) = twice;\n"
        'extern "C" int f(int x) { return outside(hidden(x)); }\n'
    )
    command: list[str | Path] = [
        zig,
        "clang",
        "-target",
        "wasm32-unknown-unknown",
        "-c",
        source,
        "-o",
        tmp_path / "a.o",
    ]
    subprocess.run(command, check=True)
    found = wasm_symbols((tmp_path / "a.o").read_bytes())
    assert found.defines == {"f", "keep"}
    assert found.weak == {"_Z5twicei"}
    assert {"_Z7outsidei", "data"} <= found.needs
    assert not any("hidden" in name for name in found.defines | found.weak | found.needs)
