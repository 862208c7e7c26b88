"""Browsers that tests of web bundles run in: ``python -m tests.support.browsers`` installs Debian's where root may."""

import os
import shutil
import sys

import pytest

from edgepack.errors import EdgepackError
from edgepack.tools import run_tool

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
FIREFOX = os.environ.get("FIREFOX") or shutil.which("firefox-esr") or shutil.which("firefox")
in_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here: apt-get install chromium, or CHROMIUM=PROGRAM"
)
in_firefox = pytest.mark.skipif(
    FIREFOX is None, reason="no Firefox here: apt-get install firefox-esr, or FIREFOX=PROGRAM"
)
WEBKIT = os.environ.get("WEBKIT") or shutil.which("WebKitWebDriver")
in_webkit = pytest.mark.skipif(
    WEBKIT is None or not shutil.which("Xvfb"),
    reason="no WebKit here: apt-get install webkit2gtk-driver xvfb, or WEBKIT=PROGRAM",
)
in_browsers = pytest.mark.parametrize(
    "browser",
    [
        pytest.param(str(CHROMIUM), marks=in_chromium, id="chromium"),
        pytest.param(str(FIREFOX), marks=in_firefox, id="firefox"),
        pytest.param(str(WEBKIT), marks=in_webkit, id="webkit"),
    ],
)


def install() -> None:
    """Raises ``ToolError`` where apt fails; does nothing where there are all, no apt, or no right to install one."""
    packages = {
        "chromium": CHROMIUM,
        "firefox-esr": FIREFOX,
        "webkit2gtk-driver": WEBKIT,
        "xvfb": shutil.which("Xvfb"),
    }
    missing = [name for name, found in packages.items() if not found]
    if not missing or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    sys.stderr.write(
        f"installing {', '.join(missing)} for the tests of web bundles (apt-get, about 100 MB each)\n"
    )
    quietly = {"DEBIAN_FRONTEND": "noninteractive"}
    run_tool(["apt-get", "update"], env=quietly)
    run_tool(["apt-get", "install", "--yes", "--no-install-recommends", *missing], env=quietly)


if __name__ == "__main__":
    try:
        install()
    except EdgepackError as error:
        sys.exit(f"not all browsers for the tests of web bundles: {error.message}")
