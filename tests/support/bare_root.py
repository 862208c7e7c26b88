"""A root file system that holds nothing but the C library, with a bundle in it."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from edgepack.files.elf import is_system_library

NOBODY = "65534:65534"

# Bind the bundle read-only in a mount namespace of its own, then enter the root with an empty environment.
ENTER = """
set -e
mount --bind "$1" "$2/bundle"
mount -o remount,bind,ro "$2/bundle"
root=$2 chroot=$3 user=$4
shift 4
exec env -i "$chroot" $user "$root" "$@"
"""
CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"


class Device:
    """A bare root folder with a bundle in it; for another processor its static emulator, which the command begins with, too."""

    def __init__(self, root: Path, bundle: Path, emulator: Sequence[str | Path] = ()) -> None:
        self.root = root
        self._before = [f"/{Path(emulator[0]).name}", *map(str, emulator[1:])] if emulator else []
        if emulator:
            shutil.copy(emulator[0], root)
        self._bundle = bundle
        self._user = f"--userspec={NOBODY}" if os.geteuid() == 0 else ""
        self._unshare = ["unshare", "--mount", *([] if self._user else ["--map-root-user"])]
        (root / "bundle").mkdir()
        # Where mounting is not allowed, a copy that the user cannot write to.
        self._mounts = self._try_mount()
        if not self._mounts:
            copy_without_write_permission(bundle, root / "bundle")

    def _try_mount(self) -> bool:
        return self.run("/bundle/embed", "--version", mounts=True).returncode == 0

    def run(
        self, *command: str, input: str = "", mounts: bool | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the device, named by its path there."""
        if self._mounts if mounts is None else mounts:
            places = [str(self._bundle), str(self.root), CHROOT]
            words = [*self._unshare, "sh", "-c", ENTER, "sh", *places, self._user]
        else:
            words = ["env", "-i", CHROOT, *filter(None, [self._user]), str(self.root)]
        return subprocess.run(
            [*words, *self._before, *command], input=input, capture_output=True, encoding="utf-8", check=False
        )


def copy_without_write_permission(bundle: Path, destination: Path) -> None:
    shutil.copytree(bundle, destination, symlinks=True, dirs_exist_ok=True)
    for path in (destination, *destination.rglob("*")):
        path.chmod(0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444)


def bare_root(root: Path) -> None:
    """Copy the C library of this system into an otherwise empty folder, each file where its name says."""
    listing = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        name, _, path = line.strip().partition(" => ")
        name = name.split(" ")[0]
        if is_system_library(name) and ("x86-64" in line or "AArch64" in line or "64bit" in line):
            places = [Path(path)]
            if name.startswith("ld-"):
                places.append(Path("/lib64" if "x86-64" in name else "/lib") / name)
            for place in places:
                target = root / place.relative_to("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(path).resolve(), target)
                target.chmod(0o755)
