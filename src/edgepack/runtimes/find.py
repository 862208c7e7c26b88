"""The platforms as builders and the commands for runtimes want them: for a device, by a file, by a release's version."""

from collections.abc import Mapping
from pathlib import Path

from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import open_bundle
from edgepack.context import BuildContext, Extension
from edgepack.errors import UsageError
from edgepack.files.archives import SUFFIXES
from edgepack.foundry.platform import RuntimeOptions, RuntimePlatform
from edgepack.foundry.platforms import find_platform, platforms
from edgepack.foundry.release import Release
from edgepack.foundry.releases.registry import find_release
from edgepack.records.runtime import RuntimeKind
from edgepack.records.target import Platform


def require_runtime(
    platform: Platform,
    *,
    kind: RuntimeKind = "minimal",
    glibc: str | None = None,
    shared: bool = False,
    any_libc: bool = False,
    context: BuildContext,
) -> None:
    """Raise ``UsageError`` unless a runtime can be made for a target's devices: processor, C library, instruction sets.

    ``shared``: as a shared library, and not only in a program; ``any_libc``: without a runtime, which any C library loads. Quick: a builder's ``make`` asks it, before anything is fetched. The message says what runtimes can be made for.
    """
    found = find_platform(platform, context.extensions("platform"))
    found.check(RuntimeOptions(platform=platform, kind=kind, glibc=glibc, shared=shared, any_libc=any_libc))


def platform_of(library: Path, extensions: Mapping[str, Extension]) -> RuntimePlatform:
    """Whose runtime a file is; what nobody recognizes is taken for a shared library for Linux."""
    known = [found for _, found in platforms(extensions)]
    return next((found for found in known if found.recognizes(library)), known[0])


def library_in(path: Path, *, work_dir: Path) -> Path:
    """A library, or that of a bundle: of its folder, or of an archive or package, which is unpacked into ``work_dir``.

    Where the runtime is inside the program, that is the program. Raises ``BundleError``, and ``UsageError`` for a bundle without
    an ONNX Runtime.
    """
    if path.is_file() and path.name.endswith((*SUFFIXES, ".deb")):
        path = unpack_bundle(path, work_dir / "unpacked")
    if not path.is_dir():
        return path
    manifest = open_bundle(path).manifest
    if manifest["runtime"] is None:
        raise UsageError(f"{manifest['name']} has no ONNX Runtime", hint="explain takes apart what is in one")
    return path / str(manifest["runtime"]["library"])


def release_for(version: str, arch: str, extensions: Mapping[str, Extension]) -> Release:
    """A release with the data of the platform that has such processors. Raises ``UsageError``."""
    for _, found in platforms(extensions):
        if arch in found.architectures and version == found.release.version:
            return found.release
    return find_release(version)
