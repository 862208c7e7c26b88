"""A bundle as one executable file: the program, byte for byte, and behind it a zip of the bundle's other files.

Members are stored, not compressed, and each begins at a multiple of 64 bytes, so that the program maps them where they lie
(``csrc/base/file.h``). Zip tools list and unpack them; the format is read from its end.
"""

import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from edgepack.api import BuildContext, Bundle, Target, UsageError
from edgepack.api.axes import bundle_entries

ALIGNMENT = 64
PADDING = 0xD935
"""An extra field that does nothing but fill, as Android's zipalign names it: the alignment, and zeros."""
DATE = 1 << 5 | 1
"""The first day of 1980, as MS-DOS writes it: the same bundle gives the same bytes on any day."""
VERSION, UNIX = 20, 3
MOST = (1 << 32) - (1 << 20)
"""Bytes of a zip whose numbers have 32 bits, less what its list takes."""
CHUNK = 1 << 20
ENDINGS = {"linux": ".embed", "windows": ".exe"}
HINT = "linux-x86-min, linux-x86-fast and their like have their runtime in the program"


@dataclass(frozen=True, kw_only=True)
class Single:
    """The packager (``edgepack.api.axes.Packager``)."""

    ending: str = ".embed"

    def file_name(self, bundle: Bundle) -> str:
        """E.g. ``all-MiniLM-L6-v2-linux-x86-fast.embed``; for Windows it ends with ``.exe``."""
        return f"{bundle.name}{self.ending}"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the file; the same bundle gives the same bytes. Raises ``UsageError`` for what needs files of its own."""
        _require_fit(bundle)
        with destination.open("wb") as out:
            _copy(bundle.program, out)
            write_zip(out, _members(bundle))
        destination.chmod(0o755)


def create_packager(target: Target) -> Single:
    """Raises ``UsageError`` for a target whose program needs files of its own."""
    if target.platform.os not in ENDINGS:
        raise UsageError(
            f"a bundle for {target.platform.os} cannot be one file",
            hint="bundles for linux and windows can",
        )
    if target.options.get("authenticode"):
        raise UsageError(
            "a program that is signed for Windows ends with its signature, and nothing may follow",
            hint="leave authenticode out, and sign the bundle: --sign (docs/signing.md)",
        )
    if target.builder == "linux" and target.options.get("runner", "pyinstaller") != "native":
        raise UsageError("a program that is frozen with Python cannot be one file", hint=HINT)
    return Single(ending=ENDINGS[target.platform.os])


def _require_fit(bundle: Bundle) -> None:
    manifest = bundle.manifest
    program = manifest["runner"]["program"]
    if manifest["runner"]["kind"] != "native":
        raise UsageError(
            f"a program of kind {manifest['runner']['kind']!r} cannot be one file with its bundle", hint=HINT
        )
    if (manifest["runtime"] or {"library": program})["library"] != program:
        raise UsageError("the bundle's program loads a library, which has to be a file of its own", hint=HINT)
    size = sum(int(file["size"]) for file in manifest["files"])
    if size > MOST:
        raise UsageError(f"a bundle of {size / 1e9:.1f} GB is too large for one file", hint="4 GB at most")


def _members(bundle: Bundle) -> Iterator[tuple[str, Path, bool]]:
    """Name, file and whether it is a program, of all but the bundle's own program."""
    for entry in bundle_entries(bundle, top="."):
        name = entry.name.removeprefix("./")
        if isinstance(entry.source, Path) and entry.source.is_file() and entry.source != bundle.program:
            yield name, entry.source, entry.executable


def write_zip(out: IO[bytes], members: Iterable[tuple[str, Path, bool]]) -> None:
    """Append a zip of files, each with its name and whether it is a program, that a program maps where they lie."""
    entries = [_add(name, file, executable, out) for name, file, executable in members]
    listed, start = b"".join(entries), out.tell()
    counts = (len(entries), len(entries), len(listed), start)
    out.write(listed + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, *counts, 0))


def _add(name: str, file: Path, executable: bool, out: IO[bytes]) -> bytes:
    """Write a member, and return its entry in the list."""
    check = 0
    with file.open("rb") as content:
        while chunk := content.read(CHUNK):
            check = zlib.crc32(chunk, check)
    raw, size, local = name.encode(), file.stat().st_size, out.tell()
    before = local + 30 + len(raw) + 6
    extra = struct.pack("<HHH", PADDING, 2 + -before % ALIGNMENT, ALIGNMENT) + bytes(-before % ALIGNMENT)
    facts = struct.pack("<HHHHHIIIH", VERSION, 0x800, 0, 0, DATE, check, size, size, len(raw))
    out.write(b"PK\3\4" + facts + struct.pack("<H", len(extra)) + raw + extra)
    _copy(file, out)
    mode = stat.S_IFREG | (0o755 if executable else 0o644)
    made_by = struct.pack("<4sH", b"PK\1\2", UNIX << 8 | VERSION)
    return made_by + facts + struct.pack("<HHHHII", 0, 0, 0, 0, mode << 16, local) + raw


def _copy(file: Path, out: IO[bytes]) -> None:
    with file.open("rb") as content:
        while chunk := content.read(CHUNK):
            out.write(chunk)
