"""Exported kernel archives and their import: one ``.tar.zst``, checked whole before anything of it is used.

In it are the objects with their records, the plan of what can be compiled, and the headers that configuring made; with
sources, also the archives of ONNX Runtime and its parts, so that a machine without a network can do everything.
"""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from edgepack import __version__
from edgepack.context import BuildContext, Progress
from edgepack.errors import BundleError, UsageError
from edgepack.files.archives import ArchiveMember, BadArchive, opened
from edgepack.files.store import disk_errors, key_of, sha256_of
from edgepack.foundry.compile.keys import archive_inputs
from edgepack.foundry.compile.objects import record_of, sound_record
from edgepack.foundry.compile.plan import COMMANDS, CONFIGURED, load_units
from edgepack.foundry.release import Release
from edgepack.foundry.releases.registry import find_release
from edgepack.foundry.sources.pinned import store_path
from edgepack.foundry.sources.tree import tree_inputs
from edgepack.foundry.units import BUILD, TREE

MANIFEST = "edgepack-archive.json"
FORMAT = "edgepack kernel archive"
SCHEMA = 1
LEVEL = 12
_LARGEST_MANIFEST = 1 << 24
_PLAN = re.compile(r"units/units-[0-9a-f]{16}\.json")
"""What ``keys.planned_file`` calls them."""
DEEPEST = 32
"""Folders within folders."""
_PLACES = ("objects", "build", "sources", "units")


@dataclass(frozen=True, kw_only=True)
class Exchanged:
    """Summary of an archive that was exported or imported."""

    key: str
    kind: str
    features: tuple[str, ...]
    toolchain: str
    objects: int
    complete: bool
    """Whether everything that any runtime may ask for is in it."""
    sources: bool
    added: int = 0
    """Objects that were not there before the import."""


ReleaseFor = Callable[[str, str], Release]
"""(version, processor) → the release that an archive is of. Raises ``UsageError``."""


def import_archive(
    file: Path, *, release_for: ReleaseFor = lambda version, _: find_release(version), context: BuildContext
) -> Exchanged:
    """Check an exported archive and put it into the store, beside what is there already.

    Raises ``BundleError`` for a file that is something else, cut off or damaged, that would write elsewhere, or that
    another edgepack made; nothing of it is then in the store.
    """
    try:
        with opened(file) as members:
            manifest = _read_manifest(members, file, release_for)
            folder = context.store.root / "kernel-archive" / str(manifest["key"])
            with context.store.lock(folder), _workplace(folder) as work:
                _unpack(members, manifest, work, file, context)
                _check_content(manifest, work, file)
                with disk_errors(folder):
                    added = _settle(manifest, work, folder, context)
    except BadArchive as error:
        raise BundleError(
            f"{file} is not an exported kernel archive, or is damaged: {error}",
            hint=error.hint or "copy or export it again",
        ) from error
    return exchanged(manifest, added=added)


def is_exported(file: Path) -> bool:
    """Whether a file is an exported archive, by the name of its first member."""
    try:
        with opened(file) as members:
            first = next(members, None)
    except BadArchive:
        return False
    return first is not None and str(first.path) == MANIFEST


def _read_manifest(members: Iterator[ArchiveMember], file: Path, release_for: ReleaseFor) -> dict[str, Any]:
    """The manifest, when it describes an archive that this edgepack can use."""
    first = next(members, None)
    if first is None or str(first.path) != MANIFEST or first.kind != "file" or first.size > _LARGEST_MANIFEST:
        raise BundleError(f"{file} is not an exported kernel archive: its first member is no {MANIFEST}")
    content = b"".join(first.chunks())
    try:
        manifest: dict[str, Any] = json.loads(content)
        if manifest["format"] != FORMAT or manifest["schema"] != SCHEMA:
            raise BundleError(f"{file} has an unsupported format: {manifest['format']} {manifest['schema']}")
        for entry in manifest["files"]:
            _require_safe(str(entry["path"]), file)
            if int(entry["size"]) < 0 or len(str(entry["sha256"])) != 64:
                raise ValueError(entry)
            if entry["path"].endswith(".o") and not isinstance(entry["identity"], str):
                raise ValueError(entry)
        exchanged(manifest)
        _require_ours(manifest, file, release_for)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise BundleError(f"{file}: its {MANIFEST} is invalid", hint="export it again") from error
    return manifest


def _require_safe(name: str, file: Path) -> None:
    parts = PurePosixPath(name).parts
    if len(parts) < 2 or parts[0] not in _PLACES or ".." in parts or "\\" in name or "\0" in name:
        raise BundleError(f"{file} would write outside its folder: {name!r}")
    if len(parts) > DEEPEST or any(part.endswith(".o") for part in parts[:-1]):
        raise BundleError(
            f"{file} holds {name[:200]!r}, which no kernel archive has", hint="do not trust this file"
        )
    if (parts[0] == "units" and not _PLAN.fullmatch(name)) or (parts[0] == "sources" and len(parts) > 2):
        raise BundleError(
            f"{file} holds {name!r}, which no kernel archive has", hint="do not trust this file"
        )


def _require_ours(manifest: Mapping[str, Any], file: Path, release_for: ReleaseFor) -> None:
    """Whether builds of this edgepack would look for it under its key, and its sources are those that are pinned."""
    try:
        arch = str(manifest["toolchain"]).rpartition(", ")[2].partition("-")[0]
        release = release_for(str(manifest["onnxruntime"]), arch)
        inputs = archive_inputs(
            release,
            kind=str(manifest["kind"]),
            features=tuple(manifest["features"]),
            tree_key=key_of(tree_inputs(manifest["sources"])),
            toolchain=str(manifest["toolchain"]),
        )
    except UsageError as error:
        raise BundleError(f"{file} is not for this edgepack: {error.message}") from error
    known = {
        name: {archive.sha256 for archive in part.archives} for name, part in release.catalogue.parts.items()
    }
    foreign = [name for name, sha256 in manifest["sources"].items() if sha256 not in known.get(name, ())]
    if foreign or key_of(inputs) != manifest["key"]:
        made = f"edgepack {manifest['edgepack']}"
        raise BundleError(
            f"{file} was made by {made} from other sources or with other settings than edgepack {__version__} uses",
            hint="export it again with this edgepack, or install that one",
        )


@contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """A folder beside the archive's own; hold the archive's lock: what killed imports left is removed."""
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left_by_a_killed_import in folder.parent.glob(f".{folder.name}-*"):
            shutil.rmtree(left_by_a_killed_import, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unpack(
    members: Iterator[ArchiveMember],
    manifest: Mapping[str, Any],
    work: Path,
    file: Path,
    context: BuildContext,
) -> None:
    """Lay out exactly the files that the manifest lists."""
    listed = {str(entry["path"]): entry for entry in manifest["files"]}
    total = sum(int(entry["size"]) for entry in listed.values())
    with disk_errors(work), context.progress("unpack and check", total, unit="B") as bar:
        for member in members:
            entry = listed.pop(str(member.path), None)
            if entry is None or member.kind != "file" or member.size != entry["size"]:
                raise BundleError(f"{file} holds {str(member.path)!r}, which its manifest does not list so")
            _copy_checked(member, work / member.path, str(entry["sha256"]), file, bar)
    if listed:
        raise BundleError(f"{file} lacks {min(listed)} and perhaps others", hint="copy or export it again")


def _copy_checked(member: ArchiveMember, place: Path, sha256: str, file: Path, bar: Progress) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with place.open("xb") as out:
        for chunk in member.chunks():
            digest.update(chunk)
            out.write(chunk)
            bar.advance(len(chunk))
    if digest.hexdigest() != sha256:
        raise BundleError(f"{file} is damaged: {member.path} is not what was exported", hint="copy it again")


def _check_content(manifest: Mapping[str, Any], work: Path, file: Path) -> None:
    """There is a plan, what was configured, and of every object a record that says the same as the manifest."""
    for entry in manifest["files"]:
        path = work / str(entry["path"])
        if path.suffix == ".o":
            record = sound_record(path)
            if record is None or record["identity"] != entry["identity"]:
                raise BundleError(f"{file} is damaged: {entry['path']} does not fit its record")
        elif path.parent == work / "units":
            try:
                load_units(path)
            except (OSError, ValueError, RecursionError) as error:
                raise BundleError(f"{file} is damaged: {entry['path']} is no plan") from error
    try:
        whole = isinstance(json.loads((work / "build" / COMMANDS).read_text()), list)
    except (OSError, ValueError, RecursionError):
        whole = False
    if not whole or not (work / "build" / CONFIGURED).is_file() or not (work / "units").is_dir():
        raise BundleError(f"{file} lacks a plan, or what was configured", hint="export it again")


def _settle(manifest: Mapping[str, Any], work: Path, folder: Path, context: BuildContext) -> int:
    """Move what was checked to where builds look for it; the objects that were not there yet."""
    _settle_sources(manifest, work, context)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "build" / CONFIGURED).is_file():
        commands = work / "build" / COMMANDS
        tree = context.store.root / "source-tree" / key_of(tree_inputs(manifest["sources"]))
        text = commands.read_text().replace(TREE, str(tree)).replace(BUILD, str(folder / "build"))
        commands.write_text(text)
        shutil.rmtree(folder / "build", ignore_errors=True)
        (work / "build").rename(folder / "build")
    for planned in sorted((work / "units").iterdir()):
        if not _is_plan(folder / planned.name):
            planned.replace(folder / planned.name)
    added = 0
    for path in sorted((work / "objects").rglob("*.o")):
        place = folder / "objects" / path.relative_to(work / "objects")
        if sound_record(place) is None:
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)
            # The record comes last: an object without its own is compiled again.
            record_of(path).replace(record_of(place))
            added += 1
    return added


def _is_plan(file: Path) -> bool:
    try:
        return bool(load_units(file))
    except (OSError, ValueError):
        return False


def _settle_sources(manifest: Mapping[str, Any], work: Path, context: BuildContext) -> None:
    parts = find_release(str(manifest["onnxruntime"])).catalogue.parts
    by_digest = {archive.sha256: archive for part in parts.values() for archive in part.archives}
    for path in sorted((work / "sources").glob("*")):
        archive = by_digest.get(sha256_of(path))
        if archive is not None:
            place = store_path(archive, context)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)


def exchanged(manifest: Mapping[str, Any], *, added: int = 0) -> Exchanged:
    """Summary of an archive by its manifest."""
    names = [str(entry["path"]) for entry in manifest["files"]]
    return Exchanged(
        key=str(manifest["key"]),
        kind=str(manifest["kind"]),
        features=tuple(map(str, manifest["features"])),
        toolchain=str(manifest["toolchain"]),
        objects=sum(name.endswith(".o") for name in names),
        complete=bool(manifest["complete"]),
        sources=any(name.startswith("sources/") for name in names),
        added=added,
    )
