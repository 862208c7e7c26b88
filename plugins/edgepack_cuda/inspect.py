"""What device code a library holds: by architecture, kind and translation unit."""

from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.text import Text

from edgepack.api import BundleError
from edgepack.api.kit import Number, add_row, table
from edgepack_cuda.fatbin import architecture_key
from edgepack_cuda.image import read_image
from edgepack_cuda.kernels import kernels_of
from edgepack_cuda.nvidia import dotted
from edgepack_cuda.prune import blobs_of, device_code

SHOWN = 3
"""Kernels of a unit that a table names."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The code of one architecture and kind."""

    architecture: str
    kind: str
    """``cubin``, ``ptx``, or ``constant``: a cubin among the constants."""
    pieces: int
    bytes: int
    unpacked: int


@dataclass(frozen=True, kw_only=True)
class TranslationUnit:
    """Part of the library that comes from one source file."""

    index: int
    bytes: int
    architectures: tuple[str, ...]
    kernels: tuple[str, ...]
    """The most frequent first; empty where the code cannot be unpacked."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A library's device code; all figures in bytes."""

    library: str
    bytes: int
    device_code: int
    parts: tuple[Part, ...]
    units: tuple[TranslationUnit, ...]

    def as_json(self) -> dict[str, Any]:
        return {"schema": 1, **asdict(self)}


def read_library(path: Path) -> bytes:
    """A file's bytes. Raises ``BundleError`` for one that cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from error


def inspect_device_code(path: Path) -> Inspection:
    """Raises ``BundleError`` for a file that is no library, is cut short, or has no device code."""
    content = read_library(path)
    image = read_image(content, path.name)
    _, code, fatbins = device_code(image, path.name)
    sizes: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for fatbin in fatbins:
        for each in fatbin.codes:
            sizes[each.architecture, each.kind].append((each.size, each.unpacked or each.size))
    for _, size, architecture in blobs_of(image):
        sizes[architecture, "constant"].append((size, size))
    return Inspection(
        library=path.name,
        bytes=len(content),
        device_code=sum(fatbin.size for fatbin in fatbins),
        parts=tuple(
            Part(
                architecture=dotted(architecture),
                kind=kind,
                pieces=len(pieces),
                bytes=sum(size for size, _ in pieces),
                unpacked=sum(unpacked for _, unpacked in pieces),
            )
            for (architecture, kind), pieces in sorted(
                sizes.items(), key=lambda item: (item[0][1], architecture_key(item[0][0]))
            )
        ),
        units=tuple(
            TranslationUnit(
                index=fatbin.index,
                bytes=fatbin.size,
                architectures=tuple(map(dotted, fatbin.architectures)),
                kernels=_kernels(code, fatbin),
            )
            for fatbin in fatbins
        ),
    )


def _kernels(code: bytes, fatbin: Any) -> tuple[str, ...]:
    try:
        return kernels_of(code, fatbin)
    except BundleError:
        return ()  # packed as older CUDAs do: sizes are known, names are not


def render_device_code(found: Inspection, *, units: int) -> Group:
    """For the terminal: sizes by architecture, then the ``units`` largest translation units."""
    by_part = table("capability", "kind", *map(Number, ("pieces", "MB", "unpacked MB")))
    for part in found.parts:
        sizes = (_megabytes(part.bytes), _megabytes(part.unpacked))
        add_row(by_part, part.architecture, part.kind, str(part.pieces), *sizes)
    by_unit = table(Number("unit"), Number("MB"), "for", "kernels")
    for unit in sorted(found.units, key=lambda unit: (-unit.bytes, unit.index))[:units]:
        names = ", ".join(unit.kernels[:SHOWN]) + (
            f", … {len(unit.kernels)}" if len(unit.kernels) > SHOWN else ""
        )
        add_row(by_unit, str(unit.index), _megabytes(unit.bytes), " ".join(unit.architectures), names)
    head = (
        f"{found.library}: {_megabytes(found.bytes)} MB, {_megabytes(found.device_code)} MB of device code "
        f"in {len(found.units)} translation units"
    )
    shown = (Text(head), Text(), by_part, Text(), by_unit)
    return Group(*(shown if units else shown[:3]))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f}"
