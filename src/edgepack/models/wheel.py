"""Models that come as a Python package: ``pypi:PACKAGE==VERSION``."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import DownloadError, MissingToolError, ModelError, ToolError
from edgepack.fetch import require_online
from edgepack.models.collect import collect_from_tree
from edgepack.models.folder import read_folder
from edgepack.models.unpack import unpack
from edgepack.network import UNREACHABLE_HINT
from edgepack.records import ModelSource

PREFIX = "pypi:"


def ingest_wheel(form: str, *, context: BuildContext) -> ModelSource:
    """The model that a wheel carries, fetched once and kept in the store.

    Raises ``ModelError``, ``UnsupportedModelError`` or ``DownloadError``.
    """
    name, version = parse(form)

    def make(folder: Path) -> None:
        require_online(context, f"{PREFIX}{name}=={version}")
        with unpacked_wheel(name, version, within=folder, context=context) as tree:
            collect_from_tree(tree, folder, model=f"{name} {version}")

    directory = context.store.cached("models", {"wheel": f"{name}=={version}"}, make)
    context.note(f"{PREFIX}{name}=={version}")
    return read_folder(directory, name=name, origin=f"{PREFIX}{name}=={version}", note=context.note)


def parse(form: str) -> tuple[str, str]:
    """Name (normalised) and version out of ``pypi:PACKAGE==VERSION``."""
    given = re.fullmatch(r"pypi:\s*([A-Za-z0-9][\w.-]*)\s*==\s*([A-Za-z0-9][\w.!+-]*)", form)
    if given is None:
        package = re.match(r"[\w.-]*", form.removeprefix(PREFIX))
        raise ModelError(
            f"{form!r} does not name a package and its version",
            hint=f"write {PREFIX}{(package and package.group()) or 'PACKAGE'}==VERSION",
        )
    return re.sub(r"[-_.]+", "-", given.group(1)).lower(), given.group(2)


@contextmanager
def unpacked_wheel(name: str, version: str, *, within: Path, context: BuildContext) -> Iterator[Path]:
    """A temporary folder with what is in the wheel."""
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=within) as temporary:
        wheel = download_wheel(name, version, Path(temporary, "download"), context=context)
        unpack(wheel, Path(temporary, "content"))
        wheel.unlink()
        yield Path(temporary, "content")


def download_wheel(name: str, version: str, folder: Path, *, context: BuildContext) -> Path:
    """The wheel, fetched by pip, so that the user's index, mirror, proxy and credentials are those of pip.

    Nothing of it is installed or run; that is why its Python version does not matter.
    """
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--ignore-requires-python",
    ]
    # pip tries five times with growing pauses; without a network that is a long silence.
    env = {"PIP_RETRIES": os.environ.get("PIP_RETRIES", "2"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        with context.progress(f"pip download {name}"):
            context.run([*command, "--dest", folder, f"{name}=={version}"], env=env)
    except ToolError as error:
        raise _pip_failure(f"{name}=={version}", error) from error
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise DownloadError(f"pip brought no wheel of {name}=={version}")
    return wheels[0]


def _pip_failure(requirement: str, error: ToolError) -> DownloadError | MissingToolError:
    output = error.message
    if "No module named pip" in output:
        return MissingToolError(
            "pip is not installed beside this Python",
            hint=f"{sys.executable} -m ensurepip, or: pip install pip",
        )
    if "NewConnectionError" in output or "Max retries exceeded" in output or "ConnectTimeout" in output:
        return DownloadError(
            f"pip reaches no package index to fetch {requirement} from", hint=UNREACHABLE_HINT
        )
    if "(from versions: none)" in output:
        name = requirement.partition("==")[0]
        return DownloadError(f"pip finds no {name}, or it reaches no package index", hint=UNREACHABLE_HINT)
    said = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    return DownloadError(
        f"pip cannot fetch {requirement}: {said[-1] if said else output}",
        hint=f"see what pip says: pip download --no-deps {requirement}",
    )
