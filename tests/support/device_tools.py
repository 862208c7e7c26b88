"""What the tests of devices need: ``python -m tests.support.device_tools`` installs OpenSSH's server, adb, proot and busybox where root may."""

import os
import shutil
import sys

import pytest

from edgepack.errors import EdgepackError
from edgepack.tools import run_tool

PACKAGES = {"sshd": "openssh-server", "adb": "adb", "proot": "proot", "busybox": "busybox-static"}


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


if __name__ == "__main__":
    try:
        install()
    except EdgepackError as error:
        sys.exit(f"no programs for the tests of devices: {error.message}")
