"""The releases of ONNX Runtime: what is known of each, and what of it is on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgepack.context import BuildContext
from edgepack.foundry.compile.compiled import compiled_archives, sources_at_hand
from edgepack.foundry.release import Release
from edgepack.foundry.releases.registry import RELEASE, RELEASES
from edgepack.models.ort.releases import brought, has_stock_files, stock_releases

AT_HAND, PINNED = "at hand", "pinned"
"""In the cache; known by digest, and fetched when it is needed."""


@dataclass(frozen=True, kw_only=True)
class KnownRelease:
    """A release, by what can be made of it."""

    version: str
    default: bool
    """Whether it is what reduced runtimes are compiled from."""
    opset: int
    """The newest of ai.onnx."""
    ir: int
    ort_format: int
    wheels: Mapping[str, str]
    """Architecture → ``at hand`` or ``pinned``."""
    sources: str
    """The same; empty: none are known."""
    compiled: tuple[str, ...]
    """Kernel archives on this machine, e.g. ``x86_64 minimal``."""
    brings: tuple[str, ...]
    """Operators that no older known release runs."""


def known_releases(context: BuildContext) -> tuple[KnownRelease, ...]:
    """All of them, the newest last. Nothing is fetched."""
    built = {release.version: release for release in RELEASES}
    found = []
    for stock in stock_releases():
        release = built.get(stock.version)
        found.append(
            KnownRelease(
                version=stock.version,
                default=stock.version == RELEASE.version,
                opset=stock.opset,
                ir=stock.ir,
                ort_format=stock.ort_format,
                wheels={
                    arch: AT_HAND if has_stock_files(wheel, context=context) else PINNED
                    for arch, wheel in stock.wheels.items()
                },
                sources=_sources(release, context) if release else "",
                compiled=tuple(compiled_archives(release, context=context)) if release else (),
                brings=brought(stock),
            )
        )
    return tuple(found)


def _sources(release: Release, context: BuildContext) -> str:
    return PINNED if sources_at_hand(release.catalogue, context=context) is None else AT_HAND
