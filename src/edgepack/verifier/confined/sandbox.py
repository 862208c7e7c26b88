"""What a bundle's program sees: its bundle, what runs it, and nothing else of the disk; no network, nobody, nothing to write to.

Namespaces of the launcher's own where the kernel lets users have them, else bubblewrap, which some systems let do what they
forbid others. In both all files are read-only, there is a /proc of its own processes, and an empty /tmp.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from edgepack.errors import UsageError
from edgepack.files.elf import SYSTEM_LIBRARIES, interpreter

Kind = Literal["namespaces", "bubblewrap"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The better first: namespaces hide what bubblewrap cannot, and take half the time."""

SYSTEM = tuple(
    map(
        Path,
        (
            "/usr",
            "/bin",
            "/sbin",
            "/lib",
            "/lib32",
            "/lib64",
            "/nix/store",
            "/gnu/store",
            "/etc/ld.so.cache",
            "/etc/alternatives",
        ),
    )
)
"""The system's programs and libraries, for what is run by one of them: a script by its interpreter, a page by Node."""
LIBC = (*sorted(SYSTEM_LIBRARIES), "libresolv.so.2", "libutil.so.1", "libnss_files.so.2", "libnss_dns.so.2")
"""What a compiled program finds on its devices: the C library and its parts."""
DEVICES = tuple(Path("/dev") / name for name in ("null", "zero", "full", "random", "urandom"))
GPU_DEVICES = ("nvidia*", "dri")
GPU_FACTS = tuple(Path("/sys") / name for name in ("bus", "class", "devices", "module"))
"""What a driver's library reads. Not all of /sys: other file systems are mounted below it."""
SCRATCH = 256 << 20
"""Bytes that /tmp may take: it is memory."""


@dataclass(frozen=True, kw_only=True)
class View:
    """View of the disk from inside, under its own path."""

    shown: tuple[Path, ...] = ()
    """Files, and folders with all that is in them. Links lead to what they lead to outside."""
    links: tuple[tuple[Path, Path], ...] = ()
    """Links, and what they say."""
    devices: tuple[Path, ...] = DEVICES
    proc: tuple[Path, ...] = ()
    """What of /proc is read-only where the rest of it is not; of none, all of /proc is read-only."""

    def has(self, path: Path) -> bool:
        """Whether a path of this host's is seen, and what it leads to."""
        known = {*self.shown, *(place for place, _ in self.links)}
        return all(
            any(each in (one, *one.parents) for each in known) for one in (path, Path(os.path.realpath(path)))
        )


def view_of(
    shown: Iterable[Path], *, system: bool = False, libc_of: Path | None = None, gpu: bool = False
) -> View:
    """The named files and folders; with the system's, the C library of a program, or a GPU's driver and devices.

    Raises ``UsageError`` for what nobody shows to a stranger: ``/``, the home folder, and what is above the current folder.
    """
    seen, links = [_harmless(path.absolute()) for path in shown], []
    devices, proc = list(DEVICES), tuple[Path, ...]()
    if gpu:
        seen += [path for path in GPU_FACTS if path.exists()]
        devices += [path for name in GPU_DEVICES for path in sorted(Path("/dev").glob(name))]
        proc = tuple(path for path in sorted(Path("/proc").iterdir()) if not _of_processes(path))
    for path in SYSTEM:
        if path.is_symlink():
            links.append((path, path.readlink()))
        elif system and path.exists():
            seen.append(path)
    if libc_of is not None and not system:
        seen += _c_library(libc_of)
    # What lies in a folder that is shown needs no place of its own.
    folders = {path for path in seen if path.is_dir()}
    needed = {path for path in seen if not folders.intersection(path.parents)}
    return View(shown=tuple(sorted(needed)), links=tuple(links), devices=tuple(devices), proc=proc)


def _of_processes(path: Path) -> bool:
    """Tell what is of single processes in /proc. NVIDIA's driver names its threads by writing there, and fails where it cannot."""
    return path.name.isdecimal() or path.is_symlink()


def _harmless(path: Path) -> Path:
    real = Path(os.path.realpath(path))
    home, here = Path.home(), Path(os.path.realpath(Path.cwd()))
    if real in (Path("/"), Path(os.path.realpath(home))) or real in here.parents:
        raise UsageError(
            f"{path} would be shown to the bundle's program, with all that is in it",
            hint="only a bundle's own folder is shown, and what an emulator or an interpreter needs; move the bundle to a folder of its own, or go out of it",
        )
    return path


def _c_library(program: Path) -> Iterator[Path]:
    """The loader that a program names, and the C library that lies beside it, where this host keeps them."""
    loader = interpreter(program)
    if loader is None or not Path(loader).is_absolute() or not Path(loader).is_file():
        return
    # By where it lies, not by how it is written: a stranger may name /usr/../home/me/.ssh/id_ed25519.
    real = Path(os.path.realpath(loader))
    if not any(Path(os.path.realpath(place)) in real.parents for place in SYSTEM):
        return
    yield _placed(Path(loader))
    beside = Path(os.path.realpath(loader)).parent
    yield from (beside / name for name in LIBC if (beside / name).is_file())


def _placed(path: Path) -> Path:
    """The same path without links in its folders, which are links inside as well."""
    return Path(os.path.realpath(path.parent)) / path.name


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """A way to run programs here that was found to work."""

    kind: Kind
    bwrap: Path | None = None

    def before(self, view: View, directory: Path) -> list[str]:
        """Beginning of a command line: of namespaces nothing, for the launcher makes them."""
        return [] if self.bwrap is None else [str(word) for word in _bubblewrap(self.bwrap, view, directory)]


def _bubblewrap(bwrap: Path, view: View, directory: Path) -> Iterator[str | Path]:
    yield from (bwrap, "--unshare-all", "--die-with-parent", "--new-session")
    yield from ("--uid", "65534", "--gid", "65534", "--cap-drop", "ALL")
    for path, to in view.links:
        yield from ("--symlink", to, path)
    yield from ("--proc", "/proc", "--dir", "/dev")
    for name in ("/proc/keys", "/proc/key-users"):
        if Path(name).exists():
            yield from ("--ro-bind", os.devnull, name)
    for device in view.devices:
        yield from ("--dev-bind", device, device)
    yield from ("--perms", "1777", "--size", str(SCRATCH), "--tmpfs", "/tmp")
    for path in view.shown:
        yield from ("--ro-bind", path, path)
    # Who is root outside owns what lies below /proc/sys, whatever capabilities are gone.
    for path in view.proc:
        yield from ("--ro-bind", path, path)
    if not view.proc:
        yield from ("--remount-ro", "/proc")
    yield from ("--remount-ro", "/", "--chdir", directory, "--")
