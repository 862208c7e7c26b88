"""Libraries of the building machine that go along because a device need not have them: libstdc++, libgcc_s, libz."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import MissingToolError, ToolError
from edgepack.licenses import license_text
from edgepack.runner.freeze.licenses import package_license

_SCRIPT = """\
import ctypes, sys
for name in sys.argv[1:]:
    ctypes.CDLL(name)
    print(next(line.split()[-1] for line in open("/proc/self/maps") if line.rstrip().rpartition("/")[2].startswith(name)))
"""
PACKAGES = {"libstdc++.so.6": "libstdc++6", "libgcc_s.so.1": "libgcc-s1", "libz.so.1": "zlib1g"}


@dataclass(frozen=True, kw_only=True)
class SystemLibrary:
    """A shared library of this machine."""

    name: str
    """As others ask for it, e.g. ``libz.so.1``."""
    file: Path
    license: str
    """Its text."""


def system_libraries(names: Iterable[str], *, context: BuildContext) -> tuple[SystemLibrary, ...]:
    """Libraries of this machine that go along because a device need not have them, e.g. libstdc++, with their licences.

    Raises ``MissingToolError`` for one that its loader does not find.
    """
    return tuple(_found(name, context) for name in names)


def _found(name: str, context: BuildContext) -> SystemLibrary:
    try:
        # The loader itself is asked, in a process that has nothing of ours loaded.
        said = context.run([sys.executable, "-I", "-S", "-c", _SCRIPT, name])
    except ToolError as error:
        raise MissingToolError(
            f"{name} is not on this machine, and the bundle needs it",
            hint=f"apt-get install {PACKAGES.get(name, name)}",
        ) from error
    component = name.split(".so")[0]
    text = package_license(name, context=context) or license_text(component)
    return SystemLibrary(
        name=name,
        file=Path(said.strip()).resolve(),
        license=text or f"{component}: no licence text was found on the machine that built this.\n",
    )
