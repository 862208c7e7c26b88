"""Finished cells in the shared store: a bundle's archive, packages, provenance and report, under the key of what it was made of.

What a store gives is a stranger's: the receiver knows which files there are, and each is held against what it is listed as.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from edgepack.building.outcome import files_beside, report_file_of, require_own, withdrawn
from edgepack.bundles.archive import archive_of, unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.bundles.packages import Packagers
from edgepack.bundles.place import BUNDLE, held_place, placed_beside, placed_folder
from edgepack.errors import BundleError, DiskFullError, OutputError
from edgepack.files.shared import SharedStore
from edgepack.files.store import sha256_of
from edgepack.plugins.context import HostContext
from edgepack.project.state_file import described, holds_installed, is_memory, remember, same_delegates
from edgepack.records.bundle import Bundle
from edgepack.toml_schema import parse_foreign, read_foreign
from edgepack.verifier.trusted_bundles import FROM_STORE, keep

KIND = "cell"
MEMORY = "cell.json"
MOST = 16 << 20
"""Bytes of it, and of a report."""


def offer(folder: Path, memory: Mapping[str, Any], *, shared: SharedStore, context: HostContext) -> bool:
    """Put the bundle in ``folder``, and what lies beside it, into the store; whether it is there then."""
    work = context.work_dir / "offered"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for name in memory["files"]:
        shutil.copyfile(folder.with_name(name), work / name)
    (work / MEMORY).write_text(json.dumps({**memory, "bundle": folder.name}), encoding="utf-8")
    return shared.offer(KIND, str(memory["key"]), work)


def take(
    folder: Path,
    key: str,
    *,
    packagers: Packagers,
    shared: SharedStore,
    just_made: bool = False,
    may_replace: Callable[[Sequence[Path]], None],
    context: HostContext,
) -> bool:
    """Lay a finished bundle out at ``folder``, as it was when it was made; ``False``, and nothing done, where there is no sound one.

    ``packagers`` make the packages that belong to it. A bundle that a worker has ``just_made`` holds the worker's Python, which may be another
    than this machine's. What the store says is held against what comes: which files there are, each
    file's digest, the bundle's manifest and files, its name and digest, and whose report it is.
    """
    work = context.work_dir / "taken"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    if not shared.fetch(KIND, key, work):
        return False
    try:
        memory = _memory(work, key, folder.name)
        if not same_delegates(memory, context.plugins()):
            return False
        found = {path.relative_to(work).as_posix() for path in work.rglob("*")} - {MEMORY}
        bundle = open_bundle(unpack_bundle(work / archive_of(folder).name, work / "unpacked" / folder.name))
        if not (just_made or holds_installed(bundle)):
            return False
        if digest(bundle) != memory["digest"] or bundle.name != folder.name:
            raise BundleError("it is another bundle than it is listed as")
        _require_files(bundle, memory, found, packagers)
        if _reported(work / report_file_of(folder).name) != memory["digest"]:
            raise BundleError("its report is that of another bundle")
    except (DiskFullError, OutputError):
        raise
    except Exception as error:
        # A packager, too, is asked about what a stranger wrote.
        context.warn(f"the store {shared.url} has a wrong {folder.name}, which is made again: {error}")
        return False
    _place(bundle.directory, work, memory, folder, may_replace)
    remember(folder, memory, ours=bool(shared.secret), store=context.store)
    if shared.secret:
        keep(FROM_STORE, sha256_of(report_file_of(folder)), store=context.store)
    return True


def _memory(work: Path, key: str, name: str) -> dict[str, Any]:
    """Raises ``ValueError`` for what is not a cell's."""
    memory: dict[str, Any] = parse_foreign(read_foreign(work / MEMORY, most=MOST))
    if not is_memory(memory) or memory["key"] != key or memory.pop("bundle") != name:
        raise ValueError("it is listed under another's key")
    return memory


def _require_files(bundle: Bundle, memory: Mapping[str, Any], found: set[str], packagers: Packagers) -> None:
    """Raise ``ValueError`` where there is anything but what lies beside this bundle, or less."""
    folder = bundle.directory
    known = {
        *(each.name for each in files_beside(folder)),
        *(packager.file_name(bundle) for _, packager in packagers),
    }
    odd = sorted((found | memory["files"].keys()) ^ known)
    if odd or found != known:
        raise ValueError(f"{(odd or sorted(known - found))[0]!r} does not belong to it, or is missing")
    if described(folder.parent.parent, known) != memory["files"]:
        raise ValueError("a file is not what it is listed as")


def _reported(file: Path) -> object:
    return parse_foreign(read_foreign(file, most=MOST))["digest"]


def _place(
    unpacked: Path,
    work: Path,
    memory: Mapping[str, Any],
    folder: Path,
    may_replace: Callable[[Sequence[Path]], None],
) -> None:
    """Places as ``pipeline.build`` does: the folder first, then what lies beside it."""
    with (
        held_place(folder, waiting=lambda: None),
        ExitStack() as beside,
        placed_folder(folder, force=True, kind=BUNDLE) as place,
    ):
        files = [folder.with_name(name) for name in memory["files"]]
        packages = sorted(set(files) - set(files_beside(folder)))
        require_own(packages, folder)
        may_replace(packages)
        for file in files:
            shutil.copyfile(work / file.name, beside.enter_context(placed_beside(file)))
        _copy_tree(unpacked, place)
        beside.enter_context(withdrawn(files, folder))


def _copy_tree(source: Path, destination: Path) -> None:
    """Into an empty folder. ``shutil.copytree`` goes on where the disk is full, and its error then does not say so."""
    for path in sorted(source.rglob("*")):
        place = destination / path.relative_to(source)
        if path.is_dir() and not path.is_symlink():
            place.mkdir()
        else:
            shutil.copy2(path, place, follow_symlinks=False)
