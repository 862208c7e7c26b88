"""Debian's source and binary packages, fetched by apt-get into folders of our own: no root, no change to the system."""

import platform
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import DownloadError, EdgepackError, MissingToolError, ToolError
from edgepack.fetch.http import patience

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LARGEST = 512 << 20
"""Bytes of a package, and of a list of packages."""
HINT = "name a folder that holds the sources in EDGEPACK_SOURCES, or import a kernel archive that was exported --with-sources"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package of a suite, e.g. the source package ``onnxruntime`` of ``trixie``."""

    suite: str
    kind: Literal["source", "deb"]
    name: str
    """With ``:ARCH``, as Debian names architectures, for a binary package of another than this machine's."""


def fetch_packages(packages: Iterable[Package], destination: Path, *, context: BuildContext) -> None:
    """Put the packages' archives into ``destination``: upstream tarballs of source packages, and .debs.

    A package that the mirror lacks is left out: the caller looks for the file that it wants, by digest.
    Raises ``MissingToolError`` without apt-get, ``DownloadError`` without network or mirror.
    """
    try:
        tools.find("apt-get")
    except MissingToolError as error:
        raise MissingToolError(
            "apt-get is not installed, and the sources are not in the cache", hint=HINT
        ) from error
    by_suite: dict[str, list[Package]] = defaultdict(list)
    for package in packages:
        by_suite[package.suite].append(package)
    destination.mkdir(parents=True, exist_ok=True)
    for suite, wanted in sorted(by_suite.items()):
        foreign = {package.name.partition(":")[2] for package in wanted} - {""}
        options = _suite(suite, foreign=sorted(foreign), context=context)
        for kind, command in (("source", ["source", "--download-only", "--tar-only"]), ("deb", ["download"])):
            names = sorted(package.name for package in wanted if package.kind == kind)
            if names:
                _get([*options, *command, *names], destination, context)


def _get(arguments: list[str | Path], destination: Path, context: BuildContext) -> None:
    try:
        context.run(
            ["apt-get", *arguments],
            cwd=destination,
            log_file=_log(context),
            timeout=patience(LARGEST),
            largest_file=LARGEST,
        )
    except ToolError as error:
        # One missing package fails the whole command, though others have been fetched.
        context.note(f"apt-get: {error.message.splitlines()[-1]}")


def _suite(suite: str, *, foreign: Sequence[str], context: BuildContext) -> list[str | Path]:
    """Options that make apt-get see this suite of the machine's own mirror, and nothing else."""
    folder = context.work_dir / "-".join(("apt", suite, *foreign))
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    architectures = [ARCHITECTURES.get(platform.machine(), "amd64"), *foreign]
    signed_by = f"Signed-By: {KEYRING}\n" if KEYRING.is_file() else ""
    listing = folder / "suite.sources"
    listing.write_text(
        f"Types: deb deb-src\nURIs: {_mirror(context)}\nSuites: {suite}\nComponents: main\n"
        f"Architectures: {' '.join(architectures)}\n{signed_by}"
    )
    options: list[str | Path] = [
        "-q",
        "-o",
        f"Dir::Etc::sourcelist={listing}",
        "-o",
        "Dir::Etc::sourceparts=/dev/null",
    ]
    options += ["-o", f"Dir::State::lists={folder / 'lists'}", "-o", f"Dir::Cache={folder / 'cache'}"]
    options += ["-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=30"]
    options += ["-o", "Acquire::Languages=none", "-o", "Dir::State::status=/dev/null"]
    if foreign:
        # apt's own list of architectures, for this call only: dpkg's is the system's and stays.
        options += [word for arch in architectures for word in ("-o", f"APT::Architectures::={arch}")]
    try:
        context.run(
            ["apt-get", *options, "update", "--error-on=any"],
            log_file=_log(context),
            timeout=patience(LARGEST),
            largest_file=LARGEST,
        )
    except ToolError as error:
        raise DownloadError(
            f"Debian's package lists of {suite} could not be fetched: {error.message.splitlines()[-1]}",
            hint=HINT,
        ) from error
    return options


def _mirror(context: BuildContext) -> str:
    """The mirror that the machine itself uses for Debian's main archive."""
    try:
        known = context.run(
            ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)"]
        )
    except EdgepackError:
        known = ""
    rows = [row for line in known.splitlines() if len(row := line.split("|")) == 4 and row[3] == "main"]
    for origin, uri, codename, _ in rows:
        if origin in ("Debian", "") and not codename.endswith(("-security", "-updates", "-backports")):
            return uri
    raise DownloadError("this machine's apt knows no Debian mirror to fetch the sources from", hint=HINT)


def _log(context: BuildContext) -> Path:
    return context.work_dir / "apt.log"
