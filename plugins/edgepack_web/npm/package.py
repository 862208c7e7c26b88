"""Packages of npm, by npm's own digests."""

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from edgepack.api import BuildContext, ToolError
from edgepack.api.axes import DownloadError, HashMismatchError
from edgepack.api.kit import unpack_matching
from edgepack.fetch.download import require_online
from edgepack_web.npm.node import npm_command

LARGEST, LONGEST = 512 << 20, 3600
"""Bytes of a tarball, and of each file in npm's cache; seconds."""


def npm_package(
    name: str, version: str, *, integrity: str, keep: Sequence[str] = ("*",), context: BuildContext
) -> Path:
    """The files of a package (what its tarball has under ``package/``), fetched once by npm and kept in the store.

    ``integrity`` is npm's own digest of the tarball, ``sha512-…``, and is checked here; ``keep`` are patterns of the
    paths that are wanted. Nothing of the package is run or installed, and its dependencies do not come with it.
    Raises ``DownloadError``, ``HashMismatchError`` or ``MissingToolError``.
    """

    def make(folder: Path) -> None:
        require_online(context, f"{name}@{version} of npm")
        tarball = _fetched(name, version, context)
        _check(tarball, f"{name}@{version}", integrity)
        unpack_matching(tarball, folder, keep, below=1)

    inputs = {"package": f"{name}@{version}", "integrity": integrity, "keep": " ".join(keep)}
    return context.store.cached("npm", inputs, make)


def _fetched(name: str, version: str, context: BuildContext) -> Path:
    folder = context.work_dir / f"npm-{re.sub(r'[^a-z0-9]+', '-', name)}-{version}"
    folder.mkdir(exist_ok=True)
    # npm would otherwise wait for minutes where there is no network.
    hasty = ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    command = [*npm_command(), "pack", f"{name}@{version}", "--pack-destination", folder, "--ignore-scripts"]
    try:
        with context.progress(f"npm pack {name}"):
            context.run([*command, *hasty], cwd=folder, timeout=LONGEST, largest_file=LARGEST)
    except ToolError as error:
        said = re.findall(r"npm (?:error|ERR!) (.+)", error.message)
        raise DownloadError(
            f"npm cannot fetch {name}@{version}: {said[0] if said else error.message}",
            hint=f"see what npm says: npm pack {name}@{version}",
        ) from error
    tarballs = sorted(folder.glob("*.tgz"))
    if len(tarballs) != 1:
        raise DownloadError(f"npm downloaded no tarball of {name}@{version}")
    return tarballs[0]


def _check(tarball: Path, what: str, integrity: str) -> None:
    algorithm, _, expected = integrity.partition("-")
    found = base64.b64encode(hashlib.new(algorithm, tarball.read_bytes()).digest()).decode()
    if found != expected:
        raise HashMismatchError(
            f"{what} does not match its pinned digest: {algorithm}-{found}, expected {integrity}",
            hint="the registry, or a proxy in between, sent a different file",
        )
