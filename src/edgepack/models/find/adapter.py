"""Adapters: the model that one was trained on is found, and the two are merged into a whole model in the store."""

import re
import shutil
from collections.abc import Collection
from glob import escape
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.files.store import digest_of_code
from edgepack.models.convert.adapter import CONFIG, WEIGHTS, adapter_weights, merge_adapter
from edgepack.models.find.hub import HUB_PREFIX
from edgepack.models.find.remote import find_remote
from edgepack.models.read import hub_layout
from edgepack.models.read.documents import CARD, require_own
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.safetensors import open_tensors, shard_names
from edgepack.records.model import RemoteModel


def is_adapter(names: Collection[str]) -> bool:
    """Whether a folder holds an adapter, and not the model that it is for as well."""
    weights = {*hub_layout.WEIGHTS, *(name for name in names if name.endswith(".onnx"))}
    return CONFIG in names and not weights & set(names)


def fetched_adapter(remote: RemoteModel, *, context: BuildContext) -> Path:
    """The folder of an adapter that lies elsewhere, kept in the store."""
    wanted = [
        *hub_layout.descriptions(remote.files),
        CONFIG,
        *(name for name in WEIGHTS if name in remote.files),
    ]
    return _fetched(remote, wanted, context)


def merged_model(adapter: Path, *, fetched: bool = False, context: BuildContext) -> Path:
    """The folder of the whole model: the base model's files, the adapter's own before them, and merged weights.

    An adapter that was ``fetched`` may not name a folder of this machine. Raises ``ModelError`` and ``UnsupportedModelError``.
    """
    said = ModelFolder(directory=adapter)
    base = _base(said, context, fetched=fetched)
    tensors = open_tensors(base / _weights(base, context))
    described = {
        each.directory: hub_layout.descriptions(each.names) for each in (ModelFolder(directory=base), said)
    }
    for place, names in described.items():
        require_own(place, (escape(name) for name in names if not name.endswith(hub_layout.TENSORS)))
    used = [*tensors.files, adapter / CONFIG, adapter_weights(said)]
    used += [folder / name for folder, names in described.items() for name in names]

    def make(folder: Path) -> None:
        for source, names in described.items():
            for name in names:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, folder / name)
        if CARD not in described[adapter]:
            (folder / CARD).unlink(missing_ok=True)
        merge_adapter(tensors, said, folder / hub_layout.SAFETENSORS)

    context.note(f"an adapter (LoRA), merged into {said.table(CONFIG)['base_model_name_or_path']}")
    files = {f"{at} {path.name}": path for at, path in enumerate(used)}
    return context.store.cached("merged-adapter", {"by": digest_of_code("models")}, make, files=files)


def _base(adapter: ModelFolder, context: BuildContext, *, fetched: bool) -> Path:
    """The folder of the model that an adapter was trained on: a local one, or the hub's."""
    settings = adapter.table(CONFIG)
    named = str(settings.get("base_model_name_or_path") or "")
    local = None if fetched else _local(adapter.directory, named)
    if local is not None:
        return local
    if not re.fullmatch(r"(?:hf:)?[\w.-]+/[\w.-]+", named):
        raise ModelError(
            f"{CONFIG} names the base model {named[:200] or None!r}, which is {'no model of the hub' if fetched else 'not a folder here'}",
            hint="set base_model_name_or_path to the folder of the model, or to its ORG/NAME on the hub",
        )
    revision = settings.get("revision")
    address = HUB_PREFIX + named.removeprefix(HUB_PREFIX) + (f"@{revision}" if revision else "")
    remote = find_remote(address, context=context)
    assert remote is not None, "the scheme is edgepack's own"
    return _fetched_base(remote, context)


def _local(adapter: Path, named: str) -> Path | None:
    """The folder with a model that a path means, from here or from the adapter's folder."""
    try:
        folders = (Path(named).expanduser(), adapter / named) if named else ()
        return next((folder.absolute() for folder in folders if (folder / "config.json").is_file()), None)
    except (OSError, RuntimeError):  # too long a name, or no such user
        return None


def _fetched_base(remote: RemoteModel, context: BuildContext) -> Path:
    names = list(hub_layout.descriptions(remote.files))
    index = next((name for name in hub_layout.WEIGHTS if name in remote.files), None)
    if index is None:
        raise ModelError(
            f"{remote.origin}, an adapter's base model, has neither safetensors nor PyTorch's checkpoints",
            hint="merge the two with peft, from files that it reads",
        )
    folder = _fetched(remote, [*names, index], context)
    if not index.endswith(".json"):
        return folder
    return _fetched(remote, [*names, index, *shard_names(folder / index)], context)


def _fetched(remote: RemoteModel, names: list[str], context: BuildContext) -> Path:
    def make(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            remote.fetch(name, folder / name)

    return context.store.cached("adapter-parts", {**remote.pins, "files": " ".join(names)}, make)


def _weights(base: Path, context: BuildContext) -> str:
    found = next((name for name in hub_layout.WEIGHTS if (base / name).is_file()), None)
    if found is None:
        raise UnsupportedModelError(
            f"{base.name}, the adapter's base model, has no weights that an adapter can be merged into",
            hint=f"it needs one of {', '.join(hub_layout.WEIGHTS)}",
        )
    return found
