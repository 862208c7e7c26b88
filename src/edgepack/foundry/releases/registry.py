"""The releases of ONNX Runtime that can be built."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import UsageError
from edgepack.foundry.release import Release
from edgepack.foundry.releases.ort_1_21.release import ORT_1_21
from edgepack.foundry.sources.pinned import fetch_parts
from edgepack.foundry.sources.tree import protoc

RELEASES = (ORT_1_21,)
"""The newest last."""
RELEASE = RELEASES[-1]
"""What is built where no release is named."""


def check_isa(names: Iterable[str], arch: str) -> tuple[str, ...]:
    """The instruction sets, sorted, with all that they imply; none: whatever the device has. Raises ``UsageError``."""
    return RELEASE.feature_levels.check(names, arch)


def fetch_sources(*, context: BuildContext) -> Mapping[str, Path]:
    """Get every source archive, and the protobuf compiler where this host has none, into the store, so that builds can run
    offline; part → archive in the store.

    ``EDGEPACK_SOURCES`` is a folder with archives, or one archive, to be looked through first.
    Raises ``DownloadError``, ``HashMismatchError`` or ``MissingToolError``.
    """
    protoc(RELEASE.catalogue.protoc, context=context)
    return fetch_parts(RELEASE.catalogue, context=context)


def find_release(version: str) -> Release:
    """The release of a version. Raises ``UsageError``."""
    for release in RELEASES:
        if release.version == version:
            return release
    raise UsageError(
        f"no sources are known for ONNX Runtime {version}",
        hint=f"edgepack builds {', '.join(release.version for release in RELEASES)}",
    )
