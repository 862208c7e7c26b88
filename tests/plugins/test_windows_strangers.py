"""Programs for Windows that a stranger made: what is read of them ends soon, and in words."""

import random
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edgepack.records.bundle import Bundle
from edgepack.records.report import Report
from edgepack_windows.imports import MOST, exports_of, imports_of, is_signed
from edgepack_windows.pe import (
    BASE,
    CODE,
    DATA,
    EXECUTE,
    EXPORT,
    IMPORT,
    READ,
    Imported,
    PeSection,
    _exports,
    _file,
    _imports,
)
from edgepack_windows.rows import windows_rows

FUNCTIONS = ("ExitProcess", "WriteFile")
HEADER = 0x40
OPTIONAL = HEADER + 24


def a_file(functions: tuple[str, ...] = FUNCTIONS, library: str = "KERNEL32.dll") -> bytes:
    """A file with imports and exports, as edgepack lays it out."""
    imported = Imported(library=library, functions=functions, slot=0x1000)
    imports, table = _imports([imported], 0x2000)
    exports = _exports({"embed_close": 0x1008, "embed_open": 0x1000}, "embed.dll", 0x100000)
    sections = [
        PeSection(name=".text", address=0x1000, size=16, data=bytes(16), flags=CODE | EXECUTE | READ),
        PeSection(name=".idata", address=0x2000, size=len(imports), data=imports, flags=DATA | READ),
        PeSection(name=".edata", address=0x100000, size=len(exports), data=exports, flags=DATA | READ),
    ]
    directories = {IMPORT: table, EXPORT: (0x100000, len(exports))}
    return _file(sections, directories, entry=0x1000, base=BASE, kind=0)


def read(content: bytes) -> str:
    """All that is read of a file; what is wrong with it in words."""
    said = []
    for each in (imports_of, exports_of, is_signed):
        try:
            said.append(repr(each(content)))
        except ValueError as error:
            said.append(str(error))
    return " ".join(said)


def test_a_sound_one_is_read() -> None:
    assert imports_of(a_file()) == {"KERNEL32.dll": FUNCTIONS}
    assert exports_of(a_file()) == ("embed_close", "embed_open") and not is_signed(a_file())


def test_mutated_ones_are_read_or_refused() -> None:
    content, chance = a_file(), random.Random(0)
    for _ in range(3_000):
        changed = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(changed))
            if chance.random() < 0.3:
                changed[at : at + 4] = struct.pack(
                    "<I", chance.choice((0, 1, 0xFFFFFFFF, 0x80000000, 0x2000))
                )
            else:
                changed[at] ^= 1 << chance.randrange(8)
        read(bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.2 else changed))


def test_tables_that_lead_to_one_another_end() -> None:
    """A row of imports for each 20 bytes, all with the same list of functions."""
    content = a_file(tuple(f"function_{number}" for number in range(MOST // 4)))
    start = content.index(struct.pack("<I", 0x2000 + 40))
    row = struct.pack("<I", 0x2000 + 40 + 8 * 30) + content[start + 4 : start + 20]
    many = content[:start] + row * 10 + content[start + 200 :]
    with pytest.raises(ValueError, match="imports more than"):
        imports_of(many)
    with pytest.raises(ValueError, match="sections"):
        imports_of(content[: HEADER + 6] + struct.pack("<H", 60_000) + content[HEADER + 8 :])
    exported = a_file()
    at = exported.index(struct.pack("<III", 1, 2, 2)) + 4
    with pytest.raises(ValueError, match="exports more than"):
        exports_of(exported[:at] + struct.pack("<II", 1 << 30, 1 << 30) + exported[at + 8 :])


@pytest.mark.parametrize("name", ["\x1b[31mKERNEL32.dll", "KERNEL32\n.dll", "K" * 5_000])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(ValueError):
        imports_of(a_file(library=name))


@pytest.mark.parametrize("content", [b"", b"MZ", b"#!/bin/sh\n", a_file()[:300], a_file(library="\x1b[2J")])
def test_a_report_says_that_a_program_cannot_be_read(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "embed.exe").write_bytes(content)
    manifest: dict[str, Any] = {
        "target": {"platform": {"os": "windows"}},
        "runner": {"program": "embed.exe", "command": ["embed.exe"]},
    }
    bundle = Bundle(directory=tmp_path, manifest=manifest)
    report = cast("Report", SimpleNamespace(verification=SimpleNamespace(texts=0)))
    rows = dict(windows_rows(bundle, report))
    assert rows["program"].startswith("cannot be read: ") and "\x1b" not in rows["program"]
