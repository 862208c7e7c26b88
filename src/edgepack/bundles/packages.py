"""Forms that a bundle travels in beside its archive: a packager of a plugin makes them, the host looks what is inside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.context import BuildContext, Extension, perhaps_broken
from edgepack.errors import EdgepackError, PluginError, TargetError
from edgepack.plugins.blame import blamed_on
from edgepack.plugins.spec import Packager
from edgepack.records.bundle import Bundle
from edgepack.records.target import Target
from edgepack.words import did_you_mean

AXIS = "package"
Packagers = Sequence[tuple[Extension, Packager]]
"""The forms of a target in their order, and what makes each."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A finished package, not yet in its place."""

    form: str
    file: Path
    size: int
    """Bytes."""


def packagers_of(target: Target, context: BuildContext) -> Packagers:
    """What makes the target's forms, asked whether it can; or ``TargetError`` with the nearest name."""
    known = context.extensions(AXIS)
    for name in target.packages:
        if name not in known:
            raise TargetError(
                f"there is no package form {name!r}{did_you_mean(name, known)}",
                hint=f"forms beside the archive: {', '.join(known) or 'none'}; `edgepack plugins` lists what is installed"
                + perhaps_broken(known),
            )
    return [(known[name], known[name].make(target)) for name in target.packages]


def make_packages(bundle: Bundle, packagers: Packagers, *, context: BuildContext) -> Iterator[Package]:
    """Each form in turn, below the work folder. A form that does not hold the very same bundle is a ``PluginError``."""
    for found, packager in packagers:
        folder = context.work_dir / "packages" / found.name
        folder.mkdir(parents=True)
        with blamed_on(found.plugin, f"package {found.name}"):
            file = folder / packager.file_name(bundle.absolute())
            packager.pack(bundle.absolute(), file, context=context)
        _require_same_bundle(bundle, file, found)
        yield Package(form=found.name, file=file, size=file.stat().st_size)


def _require_same_bundle(bundle: Bundle, file: Path, found: Extension) -> None:
    made_by = f"plugin {found.plugin}: the {found.name} package"
    if not file.is_file():
        raise PluginError(f"{made_by} is not at {file}")
    try:
        inside = open_bundle(unpack_bundle(file, file.parent / "unpacked"))
    except EdgepackError as error:
        raise PluginError(f"{made_by} does not hold the bundle: {error.message}", hint=error.hint) from error
    if digest(inside) != digest(bundle):
        raise PluginError(f"{made_by} holds another bundle than the one that was verified")
