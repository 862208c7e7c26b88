"""A root of arm64: Debian's busybox and C library, under qemu and proot, which runs programs of it without the kernel's help."""

import shutil
import subprocess
from pathlib import Path

import pytest

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError
from edgepack.foundry.processors.aarch64 import AARCH64
from edgepack.foundry.proof.emulator import Qemu, find_qemu
from tests.support.device_tools import arm64_busybox, program
from tests.support.devices import executable


def arm64_shell(folder: Path, *, context: BuildContext) -> Path:
    """A program that runs ``sh`` of an arm64 root with its arguments. Skips the test where something of it cannot be had."""
    try:
        qemu = find_qemu(AARCH64, context=context)
        busybox = arm64_busybox(context)
    except EdgepackError as error:
        pytest.skip(f"no root of arm64: {error.message}")
    root = _root(folder / "root", qemu, busybox)
    words = ["-q", qemu.program, "-r", root, "-b", "/proc", "-b", "/dev", "-w", "/root", "/bin/sh"]
    command = " ".join(map(str, (program("proot"), *words)))
    return executable(
        folder / "arm64-sh",
        f'#!/bin/sh\nexport PROOT_TMP_DIR={folder} HOME=/root PATH=/bin\nunset TMPDIR\nexec {command} "$@"\n',
    )


def _root(root: Path, qemu: Qemu, busybox: Path) -> Path:
    for name in ("bin", "tmp", "root", "proc", "dev", "etc"):
        (root / name).mkdir(parents=True)
    assert qemu.libc is not None
    shutil.copytree(qemu.libc / "lib", root / "lib", symlinks=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    said = subprocess.run([qemu.program, busybox, "--list"], capture_output=True, text=True, check=True)
    for applet in said.stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    (root / "etc" / "os-release").write_text('PRETTY_NAME="A root of arm64"\n')
    return root
