"""Whether everything in a bundle runs on the device: processor, C library, shared libraries."""

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from edgepack.errors import BundleError, FloorError
from edgepack.files.elf import (
    UNSOUND_HINT,
    c_library,
    elf_files,
    foreign_run_paths,
    glibc_floor,
    is_system_library,
    needed_libraries,
    version_key,
)
from edgepack.files.elf_reader import MACHINES
from edgepack.records.target import Platform

SYSTEM_FOLDERS = ("/lib/", "/lib64/", "/nix/store/", "/opt/", "/system/", "/usr/", "/vendor/")
"""Folders of a device, of Linux and Android, in which root alone writes."""


def require_compatible_elf(folder: Path, platform: Platform, *, device: Iterable[str] = ()) -> None:
    """Check every ELF file below a folder against the device, which has the libraries ``device`` beside its C library.

    Raises ``FloorError`` for a file of another processor or C library, or one that needs a newer glibc than the platform has, and
    ``BundleError`` for one that needs a shared library which is neither in the folder nor part of the C library, or that looks
    for its libraries in a folder that may be anybody's.
    """
    files = list(elf_files(folder))
    known = {*device, *(path.name for path in folder.rglob("*"))}
    for path in files:
        name = path.relative_to(folder).as_posix()
        _require_machine(path, name, platform)
        _require_libc(path, name, platform)
        _require_glibc(path, name, platform)
        foreign = [lib for lib in needed_libraries(path) if lib not in known and not is_system_library(lib)]
        if foreign:
            raise BundleError(
                f"{name} needs {', '.join(foreign)}, which the bundle does not hold",
                hint="the builder must put it beside that file, or link it statically",
            )
        _require_run_paths(path, folder)


def _require_run_paths(path: Path, folder: Path) -> None:
    name, foreign = path.relative_to(folder).as_posix(), foreign_run_paths(path, folder)
    # What leads to a folder around the bundle's, as in NVIDIA's libraries, is for who may exchange the bundle.
    elsewhere = (each for each in foreign if not re.match(r"\$(ORIGIN|\{ORIGIN\})(/|$)", each))
    strange = [each for each in elsewhere if not f"{posixpath.normpath(each)}/".startswith(SYSTEM_FOLDERS)]
    if strange:
        raise BundleError(
            f"{name} looks for its libraries in {', '.join(map(repr, strange))} first: "
            "whoever has that folder on a device could put his own there",
            hint=f"link it without this run path, or: patchelf --remove-rpath {path.name}",
        )


def _require_machine(path: Path, name: str, platform: Platform) -> None:
    machine, bits = _machine_of(path)
    known = {arch: (code, width) for code, (arch, width) in MACHINES.items()}
    expected = known.get(platform.arch)
    if expected is None:
        raise FloorError(
            f"{name} is a native file, and architecture {platform.arch} is not known",
            hint=f"known: {', '.join(known)}",
        )
    if (machine, bits) != expected:
        found = next((arch for arch, code in known.items() if code == (machine, bits)), f"machine {machine}")
        raise FloorError(
            f"{name} is for {found}, the target's devices are {platform.arch}",
            hint="make this part for the target's architecture",
        )


def _machine_of(path: Path) -> tuple[int, int]:
    with path.open("rb") as stream:
        head = stream.read(20)
    if len(head) < 20:
        raise BundleError(
            f"{path.name} is not a valid ELF file: it ends within its header", hint=UNSOUND_HINT
        )
    return int.from_bytes(head[18:20], "little" if head[5] == 1 else "big"), 64 if head[4] == 2 else 32


def _require_libc(path: Path, name: str, platform: Platform) -> None:
    expected = platform.libc or ("glibc" if platform.os == "linux" else None)
    found = c_library(path)
    if found and expected and found != expected:
        raise FloorError(
            f"{name} is linked against {found}, the target's devices have {expected}",
            hint=f'link it statically or against {expected}, or set the devices\' C library: --set platform.libc="{found}"',
        )


def _require_glibc(path: Path, name: str, platform: Platform) -> None:
    floor = glibc_floor(path)
    if floor is None or platform.glibc is None:
        return
    if version_key(floor) > version_key(platform.glibc):
        raise FloorError(
            f"{name} needs glibc {floor}, the target's devices have {platform.glibc}",
            hint=f'build it for an older glibc, or raise the target\'s: --set platform.glibc="{floor}"',
        )
