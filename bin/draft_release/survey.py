"""All that can be said of another release's sources before anything of them is compiled."""

from dataclasses import dataclass

from bin.draft_release.files import Files, changed_files, compare_files
from bin.draft_release.kernels import Kernels, compare_kernels
from bin.draft_release.likeness import lines_of
from bin.draft_release.parts import Part, compare_parts
from bin.draft_release.places import Place, left_out, try_patches
from bin.draft_release.tree import Tree

from edgepack.errors import UsageError
from edgepack.foundry.link.index import known_units
from edgepack.foundry.release import Release


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A tree against the release whose room is tried on it."""

    version: str
    like: str
    """The known release's version."""
    places: tuple[Place, ...]
    """Of its patches."""
    left_out: frozenset[str]
    """The patches that the room is without: those that do not fit, and what serves only them."""
    places_lost: tuple[str, ...]
    """Files that the room names, other than by patches, and that are not there."""
    kernels: Kernels
    files: Files
    parts: tuple[Part, ...]

    @property
    def used(self) -> tuple[str, ...]:
        """The patches of a first build: none that a runtime can be made without."""
        return tuple(
            place.patch for place in self.places if not place.gives and place.patch not in self.left_out
        )

    @property
    def in_the_way(self) -> tuple[Place, ...]:
        """What no runtime can be made without, and does not fit."""
        return tuple(place for place in self.places if not place.gives and place.patch in self.left_out)


def survey(release: Release, known: Tree, new: Tree) -> Survey:
    """Try a release's room on another tree. ``known`` is the release's own tree.

    Raises ``UsageError`` for the release itself.
    """
    if new.version == release.version:
        raise UsageError(
            f"ONNX Runtime {new.version} is known to edgepack: there is nothing to draft",
            hint="`edgepack runtime lib` builds it; draft takes the sources of another release",
        )
    units = known_units(release)
    lines = lines_of(new, changed_files(known, new))
    places = try_patches(release, known, new, lines)
    settings = release.build_settings("")
    needed = [
        release.api_symbols,
        *(part.patch for part in release.catalogue.parts.values() if part.patch),
    ]
    return Survey(
        version=new.version,
        like=release.version,
        places=places,
        left_out=left_out(places),
        places_lost=tuple(path for path in needed if known.has(path) and not new.has(path)),
        kernels=compare_kernels(release, known, new, places),
        files=compare_files(units, known, new, settings=settings, lines=lines),
        parts=compare_parts(known, new),
    )
