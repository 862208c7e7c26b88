"""Emulators that run a program for another processor: the system's qemu, or Debian's, unpacked into the store."""

import platform as host
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import DownloadError, MissingToolError
from edgepack.fetch.unpack import unpack_download
from edgepack.foundry.platform import Emulator
from edgepack.foundry.platforms import platforms
from edgepack.foundry.processor import Processor
from edgepack.foundry.processors.registry import find_processor
from edgepack.foundry.sources.pinned import Archive, fetch_archives, read_archive
from edgepack.toml_schema import load_toml

HINT = "apt-get install qemu-user-static, or put qemu-{arch} on PATH"
SYSTEM_LIBC = "/usr/{triple}"
"""Where Debian's cross compilers have the C library of another architecture."""


@dataclass(frozen=True, kw_only=True)
class Qemu:
    """A user-mode qemu for one processor, and where programs for that find their C library."""

    program: Path
    version: str
    libc: Path | None
    """A folder that stands for ``/``; None: this machine's own."""
    name: str = "qemu"

    def command(self, processor: str) -> list[str | Path]:
        """Beginning of a program's command line, to be run as on this processor of qemu's."""
        root: list[str | Path] = ["-L", self.libc] if self.libc else []
        return [self.program, "-cpu", processor, *root]


def find_emulator(arch: str, *, context: BuildContext) -> Emulator:
    """The emulator for a processor, as its platform has it. Raises ``MissingToolError`` when it cannot be had."""
    if processor := find_processor(arch, context=context):
        return find_qemu(processor, context=context)
    for _, platform in platforms(context.extensions("platform")):
        if arch in platform.architectures:
            return platform.emulator(context=context)
    raise MissingToolError(
        f"no emulator is known for {arch}", hint="a plugin with a platform for it also provides the emulator"
    )


def find_system(os: str, program: Path, *, context: BuildContext) -> Emulator | None:
    """Emulator of another system than Linux, as that system's platform has it; ``None`` for files that no platform
    of such a system knows. Raises ``MissingToolError`` when it cannot be had.
    """
    if os == "linux":
        return None
    for _, platform in platforms(context.extensions("platform")):
        if platform.os == os and platform.recognizes(program):
            return platform.emulator(context=context)
    return None


def find_qemu(processor: Processor, *, context: BuildContext) -> Qemu:
    """qemu for a processor: installed, or fetched. Raises ``MissingToolError`` when it cannot be had."""
    arch = processor.qemu or processor.name
    try:
        program = _program(arch, _catalogue()["qemu"], context=context)
        libc = None if processor.name == host.machine() else _libc(processor, context=context)
    except DownloadError as error:
        raise MissingToolError(
            f"no emulator for {processor.name}: {error.message}", hint=HINT.format(arch=arch)
        ) from error
    words = context.run([program, "--version"]).split()
    return Qemu(program=program, version=words[2], libc=libc)


def _program(arch: str, table: Mapping[str, Any], *, context: BuildContext) -> Path:
    """``qemu-ARCH``: on PATH, or of Debian's package, which has one for every processor."""
    for name in (f"qemu-{arch}-static", f"qemu-{arch}"):
        if tools.is_installed(name):
            return tools.find(name)
    if host.machine() != table["arch"]:
        raise MissingToolError(f"qemu-{arch} is not installed", hint=HINT.format(arch=arch))
    place = f"usr/bin/qemu-{arch}"
    packages = map(read_archive, table["packages"])
    program = unpack_emulator(packages, keep=[place], context=context) / place
    if not program.is_file():
        raise MissingToolError(
            f"qemu-{arch} is not installed, and qemu has none", hint=HINT.format(arch=arch)
        )
    return program


def _libc(processor: Processor, *, context: BuildContext) -> Path:
    """The folder that stands for ``/``: Debian's cross libraries where they are installed, else the processor's own."""
    system = Path(SYSTEM_LIBC.format(triple=processor.triple))
    if (system / processor.loader.lstrip("/")).exists():
        return system
    if processor.sysroot is None:
        raise MissingToolError(
            f"there is no C library for {processor.name} at {system}",
            hint=f"apt-get install libc6-{processor.debian}-cross",
        )
    place = f"{processor.sysroot.root}/lib".lstrip("/")
    folder = unpack_emulator(processor.sysroot.packages, keep=[place], context=context)
    return folder / processor.sysroot.root


def unpack_emulator(packages: Iterable[Archive], *, keep: Sequence[str], context: BuildContext) -> Path:
    """A folder of the store with what packages have below the paths of ``keep``: an emulator, or what it needs.

    Fetched where they are not in the store; raises ``DownloadError``, ``HashMismatchError`` or ``MissingToolError``.
    """
    wanted = list(packages)

    def lay_out(folder: Path) -> None:
        for file in fetch_archives([(package,) for package in wanted], context=context):
            unpack_download(file, folder, keep=keep)

    inputs = {package.file: package.sha256 for package in wanted}
    return context.store.cached("emulator", {**inputs, "keep": " ".join(keep)}, lay_out)


def _catalogue() -> dict[str, Any]:
    return load_toml(resources.files("edgepack.foundry.proof") / "data" / "emulators.toml")
