"""The shared library of the Python that is frozen in; some Pythons come without."""

import sys
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import MissingToolError, ToolError
from edgepack.tools import is_installed

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PACKAGE = f"libpython{VERSION}"


def python_library(work: Path, *, context: BuildContext) -> Path:
    """Path of ``libpython3.X.so``. Raises ``MissingToolError`` when there is none and none can be had.

    Debian's Python has it in a package of its own; without root, that is unpacked into ``work``.
    """
    if found := installed_library():
        return found
    if is_debian_python():
        return fetch_package(work, context=context)
    raise MissingToolError(
        f"this Python ({sys.prefix}) has no shared library, which freezing the runner needs",
        hint="use a Python built with --enable-shared, e.g. PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install",
    )


def installed_library() -> Path | None:
    from PyInstaller.depend import bindepend
    from PyInstaller.exceptions import PythonLibraryNotFoundError

    try:
        found = bindepend.get_python_library_path()
    except (PythonLibraryNotFoundError, AssertionError):  # the latter where ld.so.cache names what has gone
        return None
    return Path(found) if found else None


def is_debian_python() -> bool:
    return sys.base_prefix == "/usr" and Path("/etc/debian_version").exists()


def fetch_package(work: Path, *, context: BuildContext) -> Path:
    """Debian's package, downloaded by apt-get and unpacked beside the build, not installed."""
    hint = f"apt-get install {PACKAGE}"
    if context.offline or not (is_installed("apt-get") and is_installed("dpkg")):
        raise MissingToolError(f"the shared library of Python {VERSION} is not installed", hint=hint)
    work.mkdir(parents=True, exist_ok=True)
    try:
        context.run(["apt-get", "download", PACKAGE], cwd=work)
        for package in work.glob(f"{PACKAGE}_*.deb"):
            context.run(["dpkg", "-x", package, work])
    except ToolError as error:
        raise MissingToolError(
            f"the shared library of Python {VERSION} is not installed: {error.message}", hint=hint
        ) from error
    for found in sorted(work.glob(f"usr/lib/*/{PACKAGE}.so.1.0")):
        context.note(f"{PACKAGE} from Debian's archive")
        return found
    raise MissingToolError(f"the package {PACKAGE} holds no shared library", hint=hint)
