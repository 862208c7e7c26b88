"""The browser that tests of web bundles run in: ``python -m tests.support.chromium`` installs Debian's where root may."""

import os
import shutil
import sys

import pytest

from edgepack.errors import EdgepackError
from edgepack.tools import run_tool

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
in_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here: apt-get install chromium, or CHROMIUM=PROGRAM"
)


def install() -> None:
    """Raises ``ToolError`` where apt fails; does nothing where there is a browser, no apt, or no right to install one."""
    if CHROMIUM or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    sys.stderr.write("installing Chromium for the tests of web bundles (apt-get, about 100 MB)\n")
    quietly = {"DEBIAN_FRONTEND": "noninteractive"}
    run_tool(["apt-get", "update"], env=quietly)
    run_tool(["apt-get", "install", "--yes", "--no-install-recommends", "chromium"], env=quietly)


if __name__ == "__main__":
    try:
        install()
    except EdgepackError as error:
        sys.exit(f"no Chromium for the tests of web bundles: {error.message}")
