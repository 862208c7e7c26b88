"""Forms that a bundle travels in beside its archive: a packager of a plugin makes them, the host looks what is inside."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.context import BuildContext, Extension, perhaps_broken
from edgepack.errors import BundleError, EdgepackError, PluginError, TargetError, UsageError
from edgepack.files.folder import is_below
from edgepack.plugins.blame import blamed_on
from edgepack.plugins.returned import checked
from edgepack.plugins.spec import Packager
from edgepack.records.bundle import Bundle
from edgepack.records.target import Target
from edgepack.terminal_text import did_you_mean

AXIS = "package"
BESIDE = (".tar.zst", ".report.json", ".provenance.json")
"""What names of files beside a bundle's folder end with."""
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
    """Packagers of the target's package forms, asked whether they can. Raises ``TargetError`` with the nearest name."""
    known = context.extensions(AXIS)
    for name in target.packages:
        if name not in known:
            raise TargetError(
                f"there is no package form {name!r}{did_you_mean(name, known)}",
                hint=("an --as for each form; " if "," in name else "")
                + f"forms beside the archive: {', '.join(known) or 'none'}; `edgepack plugins` lists what is installed"
                + perhaps_broken(known),
            )
    return [(known[name], known[name].make(target)) for name in target.packages]


def make_packages(bundle: Bundle, packagers: Packagers, *, context: BuildContext) -> Iterator[Package]:
    """Each form in turn, below the work folder. A form that does not hold the very same bundle is a ``PluginError``."""
    taken = {bundle.name, *(bundle.name + end for end in BESIDE)}
    for found, packager in packagers:
        folder = context.work_dir / "packages" / found.name
        folder.mkdir(parents=True)
        with blamed_on(found.plugin, f"package {found.name}"):
            name = packager.file_name(bundle.absolute())
        checked(found.plugin, f"file_name of package {found.name}", name, str)
        if not is_below(name) or "/" in name or not name.isprintable() or name in taken:
            raise PluginError(
                f"plugin {found.plugin}: file_name of package {found.name} returned {name[:80]!r}, expected a file's name that "
                "nothing beside the bundle has"
            )
        taken.add(name)
        file = folder / name
        with blamed_on(found.plugin, f"package {found.name}"):
            packager.pack(bundle.absolute(), file, context=context)
        require_unchanged(bundle, found.plugin, f"package {found.name}")
        _require_same_bundle(bundle, file, found)
        yield Package(form=found.name, file=file, size=file.stat().st_size)


def require_version(target: Target, pattern: re.Pattern[str], what: str) -> None:
    """Raise ``UsageError`` for a target whose version is none of a form's; ``what`` names such a package."""
    if not pattern.fullmatch(target.version):
        hint = 'e.g. --set package.version="1.2.0"'
        raise UsageError(f"{target.version!r} is not a valid version of {what}", hint=hint)


def text_of_form(
    target: Target,
    form: str,
    key: str,
    pattern: re.Pattern[str],
    *,
    default: str = "",
    hint: str,
    beside: str = "",
) -> str:
    """The text under a key of the table ``[x-FORM]``. Raises ``UsageError`` for another text, and for keys that are none of the form's."""
    own = target.extra.get(form, {})
    value, unknown = own.get(key, default), own.keys() - {key, beside}
    if unknown or not isinstance(value, str) or (value != default and not pattern.fullmatch(value)):
        raise UsageError(
            f"[x-{form}] says {', '.join(sorted(unknown)) or repr(value)}", hint=f"it takes {hint}"
        )
    return value


def name_of_model(bundle: Bundle) -> str:
    """The model's name without its organisation, in small letters, digits and hyphens."""
    model = str(bundle.manifest["model"]["name"]).rpartition("/")[2]
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-") or "model"


def require_unchanged(bundle: Bundle, plugin: str, called: str) -> None:
    """Raise ``PluginError`` where a bundle is no longer what it was before the plugin was called."""
    try:
        now = open_bundle(bundle.directory)
    except BundleError as error:
        raise PluginError(f"plugin {plugin} changed the bundle in {called}: {error.message}") from error
    if digest(now) != digest(bundle):
        raise PluginError(f"plugin {plugin} changed the bundle in {called}: it is another one now")


def _require_same_bundle(bundle: Bundle, file: Path, found: Extension) -> None:
    made_by = f"plugin {found.plugin}: the {found.name} package"
    if file.is_symlink() or not file.is_file():
        raise PluginError(f"{made_by} is not at {file}")
    try:
        inside = open_bundle(unpack_bundle(file, file.parent / "unpacked"))
    except EdgepackError as error:
        raise PluginError(f"{made_by} does not hold the bundle: {error.message}", hint=error.hint) from error
    if digest(inside) != digest(bundle):
        raise PluginError(f"{made_by} holds another bundle than the one that was verified")
