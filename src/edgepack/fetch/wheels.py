"""Files out of pinned wheels: fetched by pip, checked by SHA-256, kept in the store; nothing is installed or run."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from edgepack.context import BuildContext
from edgepack.errors import (
    BundleError,
    DownloadError,
    HashMismatchError,
    MissingToolError,
    ToolError,
    UsageError,
)
from edgepack.fetch.download import require_online
from edgepack.fetch.http import UNREACHABLE_HINT, patience
from edgepack.fetch.unpack import unpack_matching
from edgepack.files.store import key_of, require_space, sha256_of
from edgepack.records.runtime import SourceFile

LARGEST = 8 << 30
"""Bytes of a wheel whose size nobody knows."""
INDEX = 256 << 20
"""Bytes of what pip writes beside: its cache has the index's pages."""
KIND = "wheels"
"""Of their entries in the store."""


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """One file of a package index, by its content."""

    name: str
    version: str
    sha256: str
    size: int
    """Bytes."""
    python: str = ""
    """What it was compiled for, e.g. ``cp311``; empty: any Python."""
    platform: str = ""
    """pip's name of what it was compiled for, e.g. ``manylinux_2_28_x86_64``; empty: any."""
    file: Path | None = field(default=None, compare=False)
    """Where it lies, when a user brings it; else pip fetches it."""

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"

    def source_files(self, *components: str) -> tuple[SourceFile, ...]:
        """For a runtime whose components, by the names of their licence texts, came out of this wheel."""
        address = f"pkg:pypi/{self.name}@{self.version}"
        return tuple(
            SourceFile(component=name, version=self.version, file=address, sha256=self.sha256, shipped=True)
            for name in components
        )


def wheel_files(wheel: Wheel, *, keep: Sequence[str] = ("*",), context: BuildContext) -> Path:
    """A folder with those of a wheel's files whose paths match a pattern of ``keep``, fetched once.

    Raises ``DownloadError``, ``HashMismatchError``, ``DiskFullError`` or ``MissingToolError``; no partial files stay.
    """

    def make(folder: Path) -> None:
        if wheel.file is not None:
            _check(wheel.file, wheel)
            unpack_matching(wheel.file, folder, keep)
            return
        require_online(context, f"{wheel.requirement} ({wheel.size / 1e6:.0f} MB)")
        download = folder / ".download"
        download.mkdir()
        # pip says in many words and a traceback that the disk is full; what is unpacked is larger still: cuBLAS 1.37 times.
        require_space(download, 5 * wheel.size // 2)
        fetched = pip_download(
            wheel.requirement, download, options=_options(wheel), size=wheel.size, context=context
        )
        _check(fetched, wheel)
        unpack_matching(fetched, folder, keep)
        shutil.rmtree(download)

    return context.store.cached(KIND, _inputs(wheel, keep), make)


def is_at_hand(wheel: Wheel, *, keep: Sequence[str], context: BuildContext) -> bool:
    """Whether these files of a wheel are in the store."""
    return (context.store.root / KIND / key_of(_inputs(wheel, keep))).is_dir()


def _inputs(wheel: Wheel, keep: Sequence[str]) -> dict[str, str]:
    return {"wheel": wheel.requirement, "sha256": wheel.sha256, "keep": " ".join(keep)}


def wheel_of_file(path: Path) -> Wheel:
    """A wheel that a user brings, by its content and what it says of itself. Raises ``UsageError``."""
    if not path.is_file():
        raise UsageError(f"there is no wheel {path}", hint="name a file, NAME-VERSION-….whl")
    try:
        with ZipFile(path) as archive:
            described = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            text = archive.read(described[0]).decode() if described else ""
    except (BadZipFile, UnicodeDecodeError, EOFError, OSError) as error:
        raise UsageError(
            f"{path.name} is no whole wheel: {error}", hint="copy or download it again"
        ) from error
    said = HeaderParser().parsestr(text)
    if not (said["Name"] and said["Version"]):
        raise UsageError(
            f"{path.name} is no wheel: it does not say its name and version",
            hint="name a file, NAME-VERSION-….whl",
        )
    return Wheel(
        name=said["Name"],
        version=said["Version"],
        sha256=sha256_of(path),
        size=path.stat().st_size,
        file=path.absolute(),
    )


def wheel_file(folder: Path, pattern: str) -> Path:
    """The first file below a wheel's folder that a pattern names. Raises ``BundleError`` where there is none."""
    found = sorted(path for path in folder.rglob(pattern) if path.is_file())
    if not found:
        raise BundleError(f"the wheel holds no {pattern}", hint="it is not the pinned version")
    return found[0]


def pip_download(
    requirement: str,
    folder: Path,
    *,
    options: Sequence[str] = (),
    size: int = LARGEST,
    context: BuildContext,
) -> Path:
    """The wheel, fetched by pip, so that the user's index, mirror, proxy and credentials are those of pip.

    Nothing of it is installed or run; that is why its Python version does not matter. It has ``size`` bytes at most.
    """
    # Without -P, a pip.py of the current folder would be run, which may be a model's.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    # pip tries five times with growing pauses; without a network that is a long silence.
    env = {"PIP_RETRIES": os.environ.get("PIP_RETRIES", "2"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    # Since pip 25.1 an interrupted download is taken up again where it broke off; an older one starts anew.
    env["PIP_RESUME_RETRIES"] = os.environ.get("PIP_RESUME_RETRIES", "5")
    name = requirement.partition("==")[0]
    try:
        with context.progress(f"pip download {name}"):
            context.run(
                [*command, "--ignore-requires-python", *options, "--dest", folder, requirement],
                env=env,
                timeout=patience(size),
                largest_file=max(size, INDEX),
            )
    except ToolError as error:
        raise _pip_failure(requirement, error) from error
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise DownloadError(f"pip downloaded no wheel of {requirement}")
    return wheels[0]


def _options(wheel: Wheel) -> list[str]:
    """The same file wherever it is fetched: pip would look for one that fits the Python that runs it."""
    options = [f"--platform={wheel.platform}"] if wheel.platform else []
    if wheel.python:
        options += [f"--python-version={wheel.python.removeprefix('cp')}", "--implementation=cp"]
    return options


def _check(fetched: Path, wheel: Wheel) -> None:
    found = sha256_of(fetched)
    if found != wheel.sha256:
        raise HashMismatchError(
            f"{fetched.name} does not match its pinned digest: sha256 {found}, expected {wheel.sha256}",
            hint="the index, or a proxy in between, sent a different file",
        )


def _pip_failure(requirement: str, error: ToolError) -> DownloadError | MissingToolError:
    output = error.message
    if "No module named pip" in output:
        return MissingToolError(
            "pip is not installed beside this Python",
            hint=f"{sys.executable} -m ensurepip, or: pip install pip",
        )
    if re.search("NewConnectionError|Max retries exceeded|ConnectTimeout", output):
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
