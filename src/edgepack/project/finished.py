"""Finished cells in the shared store: a bundle's archive, packages, provenance and report, under the key of what it was made of."""

import json
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from edgepack.bundles.archive import archive_of, unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.bundles.place import BUNDLE, held_place, placed_folder
from edgepack.bundles.provenance import provenance_file
from edgepack.errors import BundleError
from edgepack.files.shared import SharedStore
from edgepack.files.store import sha256_of, written_beside
from edgepack.pipeline import report_file_of
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import PluginHost
from edgepack.project.remembered import is_memory, remember, same_delegates
from edgepack.verifier.made_here import remember_from_store

KIND = "cell"
MEMORY = "cell.json"


def offer(folder: Path, memory: Mapping[str, Any], *, shared: SharedStore, context: HostContext) -> bool:
    """Put the bundle in ``folder``, and what lies beside it, into the store; whether it is there then."""
    work = context.work_dir / "offered"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    beside = [folder.with_name(name) for name in memory["files"]]
    for file in (*beside, provenance_file(folder), report_file_of(folder)):
        shutil.copyfile(file, work / file.name)
    (work / MEMORY).write_text(json.dumps({**memory, "bundle": folder.name}), encoding="utf-8")
    return shared.offer(KIND, str(memory["key"]), work)


def take(folder: Path, key: str, *, shared: SharedStore, host: PluginHost, context: HostContext) -> bool:
    """Lay a finished bundle out at ``folder``, as it was when it was made; ``False``, and nothing done, where there is no sound one.

    What the store says is held against what comes: each file's digest, the bundle's manifest and files, its name and digest.
    """
    work = context.work_dir / "taken"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    if not shared.fetch(KIND, key, work):
        return False
    try:
        memory = _memory(work, key, folder.name)
        if not same_delegates(memory, host):
            return False
        unpacked = unpack_bundle(work / archive_of(folder).name, work / "unpacked" / folder.name)
        bundle = open_bundle(unpacked)
        if digest(bundle) != memory["digest"] or bundle.name != folder.name:
            raise BundleError("it is another bundle than it is listed as")
    except (OSError, ValueError, KeyError, TypeError, BundleError) as error:
        context.warn(f"the store {shared.url} has a wrong {folder.name}, which is made again: {error}")
        return False
    _place(unpacked, work, memory, folder)
    if shared.secret:
        remember_from_store(sha256_of(report_file_of(folder)), store=context.store)
    return True


def _memory(work: Path, key: str, name: str) -> dict[str, Any]:
    """Raises ``ValueError`` for what is not a cell's."""
    memory: dict[str, Any] = json.loads((work / MEMORY).read_text(encoding="utf-8"))
    if not is_memory(memory) or memory["key"] != key or memory.pop("bundle") != name:
        raise ValueError("it is listed under another's key")
    if not all(isinstance(file, str) and Path(file).name == file for file in memory["files"]):
        raise ValueError("it would be written elsewhere")
    return memory


def _place(unpacked: Path, work: Path, memory: Mapping[str, Any], folder: Path) -> None:
    """As ``pipeline.build`` does: the folder first, then what lies beside it."""
    files = [*memory["files"], provenance_file(folder).name, report_file_of(folder).name]
    with (
        held_place(folder, waiting=lambda: None),
        ExitStack() as beside,
        placed_folder(folder, force=True, kind=BUNDLE) as place,
    ):
        for name in files:
            temporary = beside.enter_context(written_beside(folder.with_name(name)))
            shutil.copyfile(work / name, temporary)
        shutil.copytree(unpacked, place, symlinks=True, dirs_exist_ok=True)
    remember(folder, memory)
