"""What is in a module: sections to the byte, functions by the objects that the linker's map names."""

from pathlib import Path

import pytest
from tests.support.wasm_modules import custom, module, plus

from edgepack.errors import BundleError
from edgepack.foundry.explain.sizes import area_of, explain
from edgepack.foundry.link.composition import Member
from edgepack_web.foundry.binary import encode_u32
from edgepack_web.foundry.composition import MODULE, is_module, module_layout, module_pieces, without_names

MAP = """\
    Addr      Off     Size Out     In      Symbol
       -       2b       21 CODE
       -       2d       10         /store/objects/onnxruntime_mlas/erf.cpp.0123456789abcdef.o:(MlasComputeErf)
       -       2d       10                 MlasComputeErf
       -       3d       10         /lib/libc.a(strlen.o):(strlen)
       -       3d       10                 strlen
"""


def names(*functions: str) -> bytes:
    """A name section's content; the one function that is imported has no name."""
    rows = b"".join(
        encode_u32(index + 1) + encode_u32(len(name)) + name.encode() for index, name in enumerate(functions)
    )
    table = encode_u32(len(functions)) + rows
    return bytes([1]) + encode_u32(len(table)) + table


def test_functions_belong_to_their_objects() -> None:
    named = module(
        [plus(1), plus(2), plus(3)],
        {"f": 1},
        imported=["outside"],
        extra=[custom("name", names("MlasComputeErf", "strlen", "new"))],
    )
    pieces = list(module_pieces(named, MAP, "/store/objects/"))
    assert [(piece.file, piece.section) for piece in pieces if piece.output == "code"] == [
        ("onnxruntime_mlas/erf.cpp.0123456789abcdef.o", "MlasComputeErf"),
        ("/lib/libc.a(strlen.o)", "strlen"),
        ("<internal>", "new"),
    ]


def test_sections_and_headers_are_all_of_the_file(tmp_path: Path) -> None:
    named = module([plus(1), plus(2)], {"f": 0}, extra=[custom("name", names("a", "b"))])
    file = tmp_path / "ort.wasm"
    file.write_bytes(named)
    layout = module_layout(file)
    assert layout.headers + sum(layout.sections.values()) == len(named)
    found = explain(file, None, form=MODULE)
    assert sum(row.bytes for row in found.sections) == found.bytes == len(named)
    assert without_names(named) == module([plus(1), plus(2)], {"f": 0})


def test_what_is_no_module_is_said(tmp_path: Path) -> None:
    file = tmp_path / "ort.wasm"
    file.write_bytes(b"\0asm\1\0\0\0\1\x50")
    assert is_module(file)
    with pytest.raises(BundleError, match="not a valid WebAssembly module"):
        explain(file, None, form=MODULE)
    assert not is_module(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("library", "area"),
    [
        ("libc-mt.a", "libc"),
        ("libc++-mt-noexcept.a", "libc++"),
        ("libemmalloc.a", "allocator"),
        ("libother.a", "libother.a"),
    ],
)
def test_emscriptens_libraries_count_as_what_they_are(library: str, area: str) -> None:
    assert area_of(Member(name=f"{library}(strlen.o)", sections={}), form=MODULE) == area
