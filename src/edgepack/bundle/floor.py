"""Whether everything in a bundle runs on the device: processor, C library, shared libraries."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from edgepack.errors import BundleError, FloorError
from edgepack.files.elf import (
    SYSTEM_LIBRARIES,
    UNSOUND_HINT,
    elf_files,
    glibc_floor,
    needed_libraries,
    version_key,
)
from edgepack.records.target import Platform

MACHINES = {
    "x86_64": (62, 64),
    "aarch64": (183, 64),
    "arm64": (183, 64),
    "armv7": (40, 32),
    "armhf": (40, 32),
    "i686": (3, 32),
    "riscv64": (243, 64),
}
"""Architecture → ELF's ``e_machine`` and word size (ELF specification, chapter 4)."""


def require_platform(folder: Path, platform: Platform, *, device: Iterable[str] = ()) -> None:
    """Check every ELF file below a folder against the device, which has the libraries ``device`` beside its C library.

    Raises ``FloorError`` for a file of another processor or one that needs a newer glibc than the platform has, and
    ``BundleError`` for one that needs a shared library which is neither in the folder nor part of the C library.
    """
    files = list(elf_files(folder))
    known = {*SYSTEM_LIBRARIES, *device, *(path.name for path in folder.rglob("*"))}
    for path in files:
        name = path.relative_to(folder).as_posix()
        _require_machine(path, name, platform)
        _require_glibc(path, name, platform)
        foreign = [lib for lib in needed_libraries(path) if lib not in known]
        if foreign:
            raise BundleError(
                f"{name} needs {', '.join(foreign)}, which the bundle does not hold",
                hint="the builder must put it beside the file that needs it, or link it statically",
            )


def _require_machine(path: Path, name: str, platform: Platform) -> None:
    machine, bits = _machine_of(path)
    expected = MACHINES.get(platform.arch)
    if expected is None:
        raise FloorError(
            f"{name} is a native file, and architecture {platform.arch} is not known",
            hint=f"known: {', '.join(MACHINES)}",
        )
    if (machine, bits) != expected:
        found = next(
            (arch for arch, code in MACHINES.items() if code == (machine, bits)), f"machine {machine}"
        )
        raise FloorError(
            f"{name} is for {found}, the target's devices are {platform.arch}",
            hint="make this part for the target's architecture",
        )


def _machine_of(path: Path) -> tuple[int, int]:
    with path.open("rb") as stream:
        head = stream.read(20)
    if len(head) < 20:
        raise BundleError(
            f"{path.name} is not a sound ELF file: it ends within its header", hint=UNSOUND_HINT
        )
    order = "<" if head[5] == 1 else ">"
    return struct.unpack_from(f"{order}H", head, 18)[0], 64 if head[4] == 2 else 32


def _require_glibc(path: Path, name: str, platform: Platform) -> None:
    floor = glibc_floor(path)
    if floor is None or platform.glibc is None:
        return
    if version_key(floor) > version_key(platform.glibc):
        raise FloorError(
            f"{name} needs glibc {floor}, the target's devices have {platform.glibc}",
            hint=f'build it for an older glibc, or raise the target\'s: --set platform.glibc="{floor}"',
        )
