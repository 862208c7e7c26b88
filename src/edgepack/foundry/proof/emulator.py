"""Emulators that run a program for another processor: the system's qemu, or Debian's, unpacked into the store."""

import platform as host
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import DownloadError, MissingToolError
from edgepack.fetch.unpack import unpack_download
from edgepack.files.store import sha256_of
from edgepack.foundry.sources.pinned import fetch_archives, read_archive
from edgepack.typed import load_toml

HINT = "apt-get install qemu-user-static, or put qemu-{arch} on PATH"
SYSTEM_LIBC = "/usr/{arch}-linux-gnu"
"""Where Debian's cross compilers have the C library of another architecture."""


@dataclass(frozen=True, kw_only=True)
class Emulator:
    """A user-mode qemu for one architecture, and where programs for that find their C library."""

    program: Path
    version: str
    libc: Path | None
    """A folder that stands for ``/``; None: this machine's own."""

    def command(self, processor: str) -> list[str | Path]:
        """What a program's command line begins with, to be run as on this processor of qemu's."""
        root: list[str | Path] = ["-L", self.libc] if self.libc else []
        return [self.program, "-cpu", processor, *root]


def find_emulator(arch: str, *, context: BuildContext) -> Emulator:
    """The emulator for an architecture: installed, or fetched. Raises ``MissingToolError`` when it cannot be had."""
    catalogue = _catalogue()
    try:
        program = _qemu(arch, catalogue["qemu"], context=context)
        libc = None if arch == host.machine() else _libc(arch, catalogue["libc"], context=context)
    except DownloadError as error:
        raise MissingToolError(
            f"no emulator for {arch}: {error.message}", hint=HINT.format(arch=arch)
        ) from error
    words = context.run([program, "--version"]).split()
    return Emulator(program=program, version=words[2], libc=libc)


def _qemu(arch: str, table: Mapping[str, Any], *, context: BuildContext) -> Path:
    for name in (f"qemu-{arch}-static", f"qemu-{arch}"):
        if tools.is_installed(name):
            return tools.find(name)
    if host.machine() != table["arch"] or arch not in table["programs"]:
        raise MissingToolError(f"qemu-{arch} is not installed", hint=HINT.format(arch=arch))
    programs = sorted(table["programs"].values())
    return _unpacked("qemu", table, keep=programs, context=context) / str(table["programs"][arch])


def _libc(arch: str, tables: Mapping[str, Any], *, context: BuildContext) -> Path:
    system = Path(SYSTEM_LIBC.format(arch=arch))
    if arch not in tables:
        raise MissingToolError(
            f"there is no C library for {arch} at {system}", hint="apt-get install libc6-dev-ARCH-cross"
        )
    table = tables[arch]
    if (system / table["loader"]).exists():
        return system
    return _unpacked(f"libc-{arch}", table, keep=table["folders"], context=context)


def _unpacked(kind: str, table: Mapping[str, Any], *, keep: list[str], context: BuildContext) -> Path:
    """The packages' files in the store."""
    packages = [(read_archive(entry),) for entry in table["packages"]]
    files = fetch_archives(packages, context=context)

    def lay_out(folder: Path) -> None:
        for file in files:
            unpack_download(file, folder, keep=keep)

    return context.store.cached(kind, {file.name: sha256_of(file) for file in files}, lay_out)


def _catalogue() -> dict[str, Any]:
    return load_toml(resources.files("edgepack.foundry.proof") / "data" / "emulators.toml")
