"""Which kernel archives are on this machine."""

from collections.abc import Iterator, Mapping
from typing import get_args

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError
from edgepack.files.store import key_of
from edgepack.foundry.compile.keys import archive_inputs
from edgepack.foundry.platform import RuntimeOptions
from edgepack.foundry.platforms import platforms
from edgepack.foundry.release import Release
from edgepack.foundry.sources.pinned import Catalogue, store_path
from edgepack.foundry.sources.tree import tree_inputs
from edgepack.records.runtime import RuntimeKind
from edgepack.records.target import Platform


def sources_at_hand(catalogue: Catalogue, *, context: BuildContext) -> Mapping[str, str] | None:
    """Part → SHA-256 of its archive in the store; ``None`` unless all are there."""
    found = {
        part.name: archive.sha256
        for part in catalogue.parts.values()
        for archive in reversed(part.archives)
        if store_path(archive, context).is_file()
    }
    return found if len(found) == len(catalogue.parts) else None


def compiled_archives(release: Release, *, context: BuildContext) -> Iterator[str]:
    """Kernel archives of a release for processors of Linux, e.g. ``x86_64 minimal``. Nothing is fetched or compiled."""
    digests = sources_at_hand(release.catalogue, context=context)
    if digests is None:
        return
    tree_key = key_of(tree_inputs(digests))
    for _, platform in platforms(context.extensions("platform")):
        if platform.processor is None:
            continue  # what is not for Linux has archives, and sources, of its own
        for arch in platform.architectures:
            device = Platform(os=platform.os, arch=arch, libc="musl" if platform.libc == "musl" else "glibc")
            try:
                toolchain = platform.toolchain(RuntimeOptions(platform=device), context=context).identity
            except EdgepackError:
                continue  # nothing is compiled without it
            for kind in get_args(RuntimeKind):
                inputs = archive_inputs(
                    release, kind=kind, features=(), tree_key=tree_key, toolchain=toolchain
                )
                if (context.store.root / "kernel-archive" / key_of(inputs) / "objects").is_dir():
                    yield f"{arch} {kind}"
