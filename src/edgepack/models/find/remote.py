"""Models that lie elsewhere: found by the source of their address's scheme, fetched once, kept in the store."""

import json
import re
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from edgepack.context import BuildContext, Extension, perhaps_broken
from edgepack.errors import DownloadError, ModelError, PluginError, UsageError
from edgepack.fetch import http
from edgepack.fetch.download import SLOWEST, require_online
from edgepack.files.archives import SUFFIXES
from edgepack.files.folder import is_below
from edgepack.files.store import written_beside
from edgepack.models.find.collect import collect, collect_from_tree
from edgepack.models.find.decide import ModelRequest
from edgepack.models.find.folder import read_folder
from edgepack.models.find.unpack import unpack_model
from edgepack.models.read import hub_layout
from edgepack.plugins.blame import blamed_on
from edgepack.plugins.returned import checked
from edgepack.records.model import ModelSource, RemoteModel
from edgepack.records.target import UNSAID, PoolingMode, Reading
from edgepack.terminal_text import did_you_mean

if TYPE_CHECKING:
    from edgepack.plugins.spec import Source

AXIS = "source"
LONGEST = 1200.0
"""Seconds for all files of a model together, beside those that the slowest download takes for as many bytes."""


def find_remote(address: str, *, context: BuildContext) -> RemoteModel | None:
    """The model at an address; ``None`` for what is no address: a path, or a name.

    Raises ``UsageError`` for ``SCHEME://`` that no source knows, ``PluginError`` for a source that fails.
    """
    given = re.match(r"([a-z][a-z0-9+.-]+):(//)?", address, re.IGNORECASE)
    if given is None:
        return None
    scheme, known = given.group(1).lower(), context.extensions(AXIS)
    if scheme in known:
        found = _find(address, known[scheme], context)
        return replace(found, fetch=_Fetching(found=found))
    if not given.group(2):
        return None
    raise UsageError(
        f"no installed plugin fetches models from {scheme}://{did_you_mean(scheme, known)}",
        hint=f"schemes: {', '.join(known)}; plugins add others, `edgepack plugins` lists them"
        + perhaps_broken(known),
    )


def ingest_remote(
    remote: RemoteModel,
    *,
    reading: Reading = UNSAID,
    known: PoolingMode | None = None,
    context: BuildContext,
) -> ModelSource:
    """The model, fetched unless the store has it; ``known`` is the catalogue's word on its pooling.

    Raises ``ModelError``, ``UnsupportedModelError`` or ``DownloadError``.
    """
    asked = ModelRequest(
        name=remote.name, origin=remote.origin, graph=remote.graph, reading=reading, known=known
    )

    def make(folder: Path) -> None:
        require_online(context, remote.origin)
        if _is_archive(remote):
            _unpack(remote, folder, reading, context)
            return

        def get(name: str) -> None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            remote.fetch(name, folder / name)

        collect(remote.files, get, folder, asked, context=context)

    # An edition that reads more of a model's documents fetches them, too.
    documents = (
        sorted(hub_layout.DESCRIPTIONS) if _is_archive(remote) else hub_layout.descriptions(remote.files)
    )
    read = {"documents": " ".join(documents)}
    directory = context.store.cached("models", {**remote.pins, **read}, make)
    context.note(remote.origin)
    return read_folder(directory, asked, context=context)


def _is_archive(remote: RemoteModel) -> bool:
    return len(remote.files) == 1 and remote.files[0].lower().endswith(SUFFIXES)


def _unpack(remote: RemoteModel, folder: Path, reading: Reading, context: BuildContext) -> None:
    (name,) = remote.files
    with tempfile.TemporaryDirectory(prefix=".archive-", dir=folder) as temporary:
        archive = Path(temporary, name)
        remote.fetch(name, archive)
        unpack_model(archive, Path(temporary, "content"))
        archive.unlink()
        collect_from_tree(
            Path(temporary, "content"), folder, ModelRequest(name=name, reading=reading), context=context
        )


@dataclass(kw_only=True)
class _Fetching:
    """A model's ``fetch``, which asks for no file more once they are too many, or came too slowly. Mutable: it remembers what came."""

    found: RemoteModel
    files: int = 0
    size: int = 0
    seconds: float = 0.0

    def __call__(self, name: str, destination: Path) -> None:
        if self.files == hub_layout.MOST_FILES:
            raise ModelError(
                f"{self.found.origin} has more than {self.files:,} files that edgepack would fetch",
                hint="a model has fewer; check the address",
            )
        if self.seconds > LONGEST + self.size / SLOWEST:
            raise DownloadError(
                f"{self.found.origin} is too slow: {self.files} files of {self.size:,} bytes in {self.seconds:.0f} s",
                hint="try again later",
            )
        began = time.monotonic()
        self.found.fetch(name, destination)
        self.files, self.size = self.files + 1, self.size + destination.stat().st_size
        self.seconds += time.monotonic() - began


def _find(address: str, extension: Extension, context: BuildContext) -> RemoteModel:
    """Find a model by its source; for a plugin's source, what it found last serves when it cannot be asked."""
    source: Source = extension.make()
    if not extension.identity:
        return source.find(address, context=context)
    last = _remembered(address, extension, context)
    if context.offline and last is not None:
        return last
    require_online(context, address)
    called = f"find of source {extension.name}"
    try:
        with blamed_on(extension.plugin, called):
            found = source.find(address, context=context)
    except DownloadError as error:
        if not http.is_passing(error) or last is None:
            raise
        if last.origin == address:
            context.note(f"{address} could not be reached; using the cache")
        else:
            context.warn(
                f"{address} could not be reached ({error.message}); using {last.origin}, the last version seen"
            )
        return last
    _check(found, extension, called)
    for each in (address, found.origin):
        with written_beside(_memory(each, extension, context)) as temporary:
            temporary.write_text(json.dumps({"address": each, **_plain(found)}), encoding="utf-8")
    return replace(found, pins=_pins(found), fetch=_checked_fetch(found, extension))


def _pins(found: RemoteModel) -> dict[str, str]:
    """No other source's model has them, nor edgepack's own, which say nothing of a source."""
    return {**found.pins, "source": found.origin}


def _check(found: Any, extension: Extension, called: str) -> None:
    """Raise ``PluginError`` for what is no model at an address of this source."""
    checked(extension.plugin, called, found, RemoteModel)
    if not found.name or not found.origin.lower().startswith(f"{extension.name}:"):
        wrong = f"gives {found.name!r} the origin {found.origin!r}, expected a name and an address of its own scheme"
    elif not found.pins or not all(text for pin in found.pins.items() for text in pin):
        wrong = f"pins {found.name} by {dict(found.pins)!r}, expected revision or digests as texts"
    elif outside := [name for name in found.files if "\\" in name or not is_below(name)]:
        wrong = f"lists {outside[0]!r}, which is no path below the model's folder"
    elif found.graph and found.graph not in found.files:
        wrong = f"takes the graph {found.graph!r}, which it does not list"
    else:
        return
    raise PluginError(f"plugin {extension.plugin}: {called} {wrong}")


def _checked_fetch(found: RemoteModel, extension: Extension) -> Any:
    def fetch(name: str, destination: Path) -> None:
        if name not in found.files:
            raise ModelError(f"{found.origin} has no {name}", hint="get the model whole, or take another")
        with blamed_on(extension.plugin, f"fetch of source {extension.name}"):
            found.fetch(name, destination)
        if destination.is_symlink() or not destination.is_file():
            raise PluginError(
                f"plugin {extension.plugin}: fetch of source {extension.name} wrote no file {name}"
            )

    return fetch


def _memory(address: str, extension: Extension, context: BuildContext) -> Path:
    inputs = {"source": extension.name, "plugin": extension.plugin, "address": address}
    return context.store.folder("sources", inputs) / "found.json"


def _plain(found: RemoteModel) -> dict[str, Any]:
    return {
        "name": found.name,
        "origin": found.origin,
        "pins": _pins(found),
        "files": found.files,
        "graph": found.graph,
    }


def _remembered(address: str, extension: Extension, context: BuildContext) -> RemoteModel | None:
    """Model that was found there last; ``None`` where that is not known, or what is known is damaged or of another address.

    Its ``fetch`` raises ``DownloadError``: more of it is asked for than the store has.
    """
    try:
        said = json.loads(_memory(address, extension, context).read_text(encoding="utf-8"))
        if said.pop("address", address) != address:
            return None
        origin = str(said["origin"])
        return RemoteModel(
            **{**said, "files": tuple(said["files"])}, fetch=lambda name, _: _not_kept(name, origin)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _not_kept(name: str, origin: str) -> NoReturn:
    raise DownloadError(f"{origin} cannot be reached, and {name} is not in the cache")
