"""Where programs of strangers run: no network, nothing to write to, nobody to see, and an end.

bubblewrap where it is installed, else util-linux's unshare with user namespaces. In both the program sees the system's
programs and libraries, its bundle and what else is named, all read-only; a /proc of its own processes; an empty /tmp.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import MissingToolError, ToolError

Kind = Literal["bubblewrap", "unshare"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The better first."""

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
"""What every program may read, where there is such: the loader, the C library, and what a command may name (Node)."""
DEVICES = tuple(Path("/dev") / name for name in ("null", "zero", "full", "random", "urandom"))
GPU_DEVICES = ("nvidia*", "dri")
GPU_FACTS = tuple(Path("/sys") / name for name in ("bus", "class", "devices", "module"))
"""What a driver's library reads. Not all of /sys: other file systems are mounted below it."""
SCRATCH = 256 << 20
"""Bytes that /tmp may take: it is memory."""
PROCESSES = 1024
"""And threads, at once. A runtime has a thread per core. The kernel counts those of ordinary users alone, not root's;
before Linux 5.14 it counts the user's others, too."""


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """A way to run programs here that was found to work."""

    kind: Kind
    root: Path
    """An empty folder that becomes ``/`` inside (unshare)."""
    processes: int = PROCESSES

    def command(
        self, directory: Path, *, readable: Iterable[Path] = (), gpu: bool = False
    ) -> list[str | Path]:
        """What the command line of a program begins with that is to run in ``directory``, and may read that.

        ``readable`` names further files and folders, e.g. an emulator's; they keep their paths.
        """
        shown = [directory.absolute(), *(path.absolute() for path in readable)]
        devices = list(DEVICES)
        if gpu:
            shown += [path for path in GPU_FACTS if path.exists()]
            devices += [path for name in GPU_DEVICES for path in sorted(Path("/dev").glob(name))]
        # Inside, where the kernel counts only what was started inside.
        counted = ["prlimit", f"--nproc={self.processes}", "--"]
        if self.kind == "bubblewrap":
            return [*_bubblewrap(directory.absolute(), shown, devices), *counted]
        return [*_unshare(self.root, directory.absolute(), shown, devices), *counted]


def find_sandbox(context: BuildContext) -> Sandbox | None:
    """The best sandbox of this host: one in which ``true`` ran just now; ``None`` where none is to be had.

    Containers without privileges and hosts that forbid user namespaces have none.
    """
    root = context.work_dir / "sandbox"
    root.mkdir(exist_ok=True)
    for kind in KINDS:
        sandbox = Sandbox(kind=kind, root=root)
        try:
            context.run([*sandbox.command(context.work_dir), "true"])
        except (ToolError, MissingToolError):
            continue
        return sandbox
    return None


def _bubblewrap(directory: Path, shown: Sequence[Path], devices: Sequence[Path]) -> list[str | Path]:
    # What it was started with stays readable in /proc/1/environ.
    words: list[str | Path] = ["env", "-i", tools.find("bwrap"), "--unshare-all", "--die-with-parent"]
    words += ["--new-session", "--clearenv", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]
    for path in SYSTEM:
        if path.is_symlink():
            words += ["--symlink", path.readlink(), path]
        elif path.exists():
            words += ["--ro-bind", path, path]
    words += ["--proc", "/proc", "--dir", "/dev"]
    for device in devices:
        words += ["--dev-bind", device, device]
    words += ["--perms", "1777", "--size", str(SCRATCH), "--tmpfs", "/tmp"]
    for path in shown:
        words += ["--ro-bind", path, path]
    # Who is root outside owns what lies below /proc/sys, whatever capabilities are gone.
    return [*words, "--remount-ro", "/proc", "--remount-ro", "/", "--chdir", directory, "--"]


def _unshare(root: Path, directory: Path, shown: Sequence[Path], devices: Sequence[Path]) -> list[str | Path]:
    # The parent's death ends each of them in turn; capabilities are gone before the program starts.
    spaces = ["--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc", "--uts"]
    outside = ["setpriv", "--pdeathsig", "KILL", "unshare", *spaces, "--fork", "--kill-child=KILL"]
    inside = ["unshare", f"--root={root}", f"--wd={directory}", "setpriv", "--no-new-privs"]
    inside += ["--bounding-set=-all", "--inh-caps=-all", "--pdeathsig", "KILL", "setsid", "env", "-i"]
    # The first process of a process namespace does not end on most signals, so the program is its child.
    first = ["sh", "-c", '"$@"; exit $?', "sh"]
    script = "\n".join([*_mounts(root, shown, devices), f'exec {shlex.join([*inside, *first])} "$@"'])
    return [*outside, "sh", "-ec", script, "sh"]


def _mounts(root: Path, shown: Sequence[Path], devices: Sequence[Path]) -> Iterator[str]:
    """Shell commands that lay out ``/`` in ``root``."""
    at = shlex.quote(str(root))
    yield f"mount -t tmpfs -o mode=755,size=1m,nosuid,nodev sandbox {at}"
    yield f"mkdir {at}/proc {at}/dev {at}/tmp"
    for path in SYSTEM:
        if path.is_symlink():
            yield f"ln -s {shlex.quote(str(path.readlink()))} {at}{path}"
        elif path.exists():
            yield from _bind(at, path, "ro,nosuid,nodev")
    yield f"mount -t proc -o ro,nosuid,nodev,noexec proc {at}/proc"
    for device in devices:
        yield from _bind(at, device, "")
    yield f"mount -t tmpfs -o mode=1777,size={SCRATCH},nosuid,nodev scratch {at}/tmp"
    for path in shown:
        yield from _bind(at, path, "ro,nosuid,nodev")
    yield f"mount -o remount,bind,ro,nosuid,nodev {at}"


def _bind(at: str, path: Path, options: str) -> Iterator[str]:
    here, there = shlex.quote(str(path)), f"{at}{shlex.quote(str(path))}"
    if path.is_dir():
        yield f"mkdir -p {there}"
    else:
        yield f"mkdir -p {at}{shlex.quote(str(path.parent))}; : > {there}"
    yield f"mount --bind {here} {there}"
    if options:
        yield f"mount -o remount,bind,{options} {there}"
