"""bubblewrap for the tests of the sandbox: installed, or Debian's, unpacked into the store by ``python -m tests.support.bubblewrap``."""

import platform
import sys
from pathlib import Path

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import EdgepackError, MissingToolError
from edgepack.fetch.debian import Package
from edgepack.foundry.proof.emulator import unpack_emulator
from edgepack.foundry.sources.pinned import Archive
from edgepack.plugins.context import host_context

PACKAGE = Archive(
    file="bubblewrap_0.8.0-2+deb12u1_amd64.deb",
    sha256="3cc9134a3286ad01a323dcd924ba123eb634cefaeec82d774257e06308aeaadb",
    size=47320,
    debian=Package(suite="bookworm", kind="deb", name="bubblewrap"),
)
PROGRAM = "usr/bin/bwrap"


def bubblewrap(context: BuildContext) -> Path:
    """The program. Raises ``EdgepackError`` where it cannot be had."""
    if tools.is_installed("bwrap"):
        return tools.find("bwrap")
    if platform.machine() != "x86_64":
        raise MissingToolError("bwrap is not installed", hint="apt-get install bubblewrap")
    return unpack_emulator([PACKAGE], keep=[PROGRAM], context=context) / PROGRAM


if __name__ == "__main__":
    with host_context() as own:
        try:
            bubblewrap(own)
        except EdgepackError as error:
            sys.exit(f"no bubblewrap for the tests of the sandbox: {error.message}")
