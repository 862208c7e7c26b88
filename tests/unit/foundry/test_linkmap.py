"""The linker's map says what was linked, and where from."""

from pathlib import Path

from edgepack.foundry.linkmap import Piece, read_link_map


def test_the_linker_s_map(tmp_path: Path) -> None:
    (tmp_path / "map").write_text(
        "             VMA              LMA     Size Align Out     In      Symbol\n"
        "           1000             1000       30    16 .text\n"
        "           1000             1000       20    16         /a/objects/lib/x.cc.o:(.text._ZN1fEv)\n"
        "           1000             1000       20     1                 f()\n"
        "           1020             1020       10    16         <internal>:(.plt)\n"
    )
    assert list(read_link_map(tmp_path / "map")) == [
        Piece(
            output=".text", file="/a/objects/lib/x.cc.o", section=".text._ZN1fEv", size=0x20, address=0x1000
        ),
        Piece(output=".text", file="<internal>", section=".plt", size=0x10, address=0x1020),
    ]
