"""What the tests of devices need: ``python -m tests.support.device_tools`` installs OpenSSH's server, adb, proot and busybox where root may,
and fetches busybox for arm64."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.context import BuildContext
from edgepack.errors import EdgepackError
from edgepack.fetch.debian import Package
from edgepack.foundry.proof.emulator import unpack_emulator
from edgepack.foundry.sources.pinned import Archive
from edgepack.plugins.context import host_context
from edgepack.tools import run_tool

PACKAGES = {"sshd": "openssh-server", "adb": "adb", "proot": "proot", "busybox": "busybox-static"}
ARM64_BUSYBOX = Archive(
    file="busybox-static_1%3a1.35.0-4+deb12u1+b1_arm64.deb",
    sha256="732c9135564fc71337e0e05fb4da4d11e6c28c1834bce3e405e575afef2a52f5",
    size=822236,
    debian=Package(suite="bookworm", kind="deb", name="busybox-static:arm64"),
)


def program(name: str) -> str | None:
    """Where it is; servers are not on every PATH."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def needs(*names: str) -> pytest.MarkDecorator:
    """Skips a test without these programs."""
    lacking = [PACKAGES[name] for name in names if program(name) is None]
    return pytest.mark.skipif(bool(lacking), reason=f"apt-get install {' '.join(lacking)}")


def install() -> None:
    """Raises ``ToolError`` where apt fails; does nothing where all is there, there is no apt, or no right to install."""
    lacking = [package for name, package in PACKAGES.items() if program(name) is None]
    if not lacking or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    sys.stderr.write(f"installing {', '.join(lacking)} for the tests of devices (apt-get)\n")
    # No server is to be started: on a machine with an init system, a package's own script would.
    quietly = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    run_tool(["apt-get", "update"], env=quietly)
    run_tool(["apt-get", "install", "--yes", "--no-install-recommends", *lacking], env=quietly)


def arm64_busybox(context: BuildContext) -> Path:
    """Debian's, unpacked. Raises ``EdgepackError`` where it cannot be had."""
    place = "bin/busybox"
    return unpack_emulator([ARM64_BUSYBOX], keep=[place], context=context) / place


if __name__ == "__main__":
    try:
        install()
        with host_context(story=Story(quiet=True)) as fetching:
            arm64_busybox(fetching)
    except EdgepackError as error:
        sys.exit(f"no programs for the tests of devices: {error.message}")
