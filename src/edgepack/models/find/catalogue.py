"""The models that have a name of their own, pinned by content and to be had from several places."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext
from edgepack.errors import (
    DiskFullError,
    DownloadError,
    EdgepackError,
    HashMismatchError,
    ModelError,
    OutputError,
)
from edgepack.fetch.download import fetch_file, require_online
from edgepack.fetch.http import HASTY, PATIENT, UNREACHABLE_HINT
from edgepack.files.store import sha256_of
from edgepack.models.find import hub, wheel
from edgepack.models.find.collect import find_model
from edgepack.models.find.decide import ModelRequest
from edgepack.models.find.folder import read_folder
from edgepack.models.find.remote import ingest_remote
from edgepack.records.model import FileDigest, ModelSource
from edgepack.records.target import UNSAID, PoolingMode, Reading
from edgepack.toml_schema import parse_toml, read_table

log = logging.getLogger(__name__)

CATALOGUE_PREFIX = "catalogue:"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model: its files by content, and where they can be had."""

    name: str
    places: tuple[str, ...]
    """``hf:…@REV``, ``pypi:…==VERSION`` or the https address of a folder, in the order in which they are tried."""
    files: tuple[FileDigest, ...] = ()
    """Every file that is needed; empty where the digests are not known: then ``shape`` is what the model is held against."""
    shape: Mapping[str, Any] = field(default_factory=dict)
    """What config.json must say."""
    pooling: PoolingMode | None = None
    """What the model's own files must say."""
    license: str | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    """By purpose, as the model's card says them; what the model's own files say comes first."""
    matryoshka: tuple[int, ...] = ()

    @property
    def short_name(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, kw_only=True)
class ModelCatalogue:
    entries: tuple[Entry, ...]
    default: str

    def find(self, name: str) -> Entry | None:
        """The entry with this name, with or without its organisation, in small letters or capitals."""
        folded = name.lower()
        return next(
            (each for each in self.entries if folded in (each.name.lower(), each.short_name.lower())), None
        )


@dataclass(frozen=True, kw_only=True)
class _File:
    """A catalogue's file, key by key."""

    default: str
    model: tuple[Entry, ...]
    schema: int = 1


def load_catalogue() -> ModelCatalogue:
    """The catalogue that comes with edgepack."""
    return parse_catalogue((files("edgepack.models.find") / "catalogue.toml").read_text(encoding="utf-8"))


def parse_catalogue(text: str) -> ModelCatalogue:
    read = read_table(_File, parse_toml(text))
    return ModelCatalogue(entries=read.model, default=read.default)


def ingest_entry(entry: Entry, *, reading: Reading = UNSAID, context: BuildContext) -> ModelSource:
    """The model of an entry, fetched from the first place that gives the right content and kept in the store.

    Raises ``HashMismatchError`` when a place gives other content and none the right one, ``DownloadError`` when none
    can be reached, ``ModelError`` when a model without pinned digests is not of the shape that it is known to have.
    """
    if not entry.files:
        return _unpinned(entry, reading, context)
    came_from: list[str] = []

    def make(folder: Path) -> None:
        require_online(context, f"{entry.name} ({', '.join(entry.places)})")
        came_from.append(_fetch(entry, folder, context))

    inputs = {"catalogue": entry.name, **{file.path: file.sha256 for file in entry.files}}
    directory = context.store.cached("models", inputs, make)
    place = f"from {came_from[0]}" if came_from else "cached"
    context.note(entry.name)
    context.note(f"{entry.size / 1e6:.1f} MB, sha256 verified, {place}")
    # The same whatever the place: what was fetched is told by the digests.
    origin = f"{CATALOGUE_PREFIX}{entry.name}"
    asked = ModelRequest(
        name=entry.name, origin=origin, license=entry.license, reading=reading, known=entry.pooling
    )
    source = read_folder(directory, asked, context=context)
    return with_known_facts(source, entry)


def _unpinned(entry: Entry, reading: Reading, context: BuildContext) -> ModelSource:
    """From the hub, whose listing carries the weights' digest, and held against the shape that is known."""
    remote = hub.Hub().find(entry.places[0], context=context)
    source = ingest_remote(remote, reading=reading, known=entry.pooling, context=context)
    wrong = [
        f"{key} is {source.config.get(key)!r}, known is {value!r}"
        for key, value in entry.shape.items()
        if source.config.get(key) != value
    ]
    if source.pooling_from != "set" and entry.pooling not in (None, source.pooling.mode):
        wrong.append(f"it pools by {source.pooling.mode}, known is {entry.pooling}")
    if wrong:
        raise ModelError(
            f"{entry.places[0]} is not the {entry.name} of the catalogue: {'; '.join(wrong)}",
            hint="name it as hf:ORG/NAME@REVISION to use it anyway",
        )
    context.note("weights as the hub's listing pins them, shape as the catalogue knows it")
    return with_known_facts(replace(source, license=source.license or entry.license), entry)


def with_known_facts(source: ModelSource, entry: Entry | None) -> ModelSource:
    """The source with what its card says and its files do not: prompts and Matryoshka lengths."""
    if entry is None:
        return source
    said = source.reading.prompts
    own = {purpose: text for purpose, text in source.prompts.items() if purpose not in said}
    return replace(source, prompts={**(own or entry.prompts), **said}, matryoshka=entry.matryoshka)


def _fetch(entry: Entry, folder: Path, context: BuildContext) -> str:
    """Fill the folder from the first place that has the right content, and return that place."""
    failures: list[tuple[str, EdgepackError]] = []
    for place in entry.places:
        try:
            if place.startswith(wheel.WHEEL_PREFIX):
                _from_wheel(entry, place, folder, context)
            else:
                _from_server(entry, place, folder, context)
        except (DiskFullError, OutputError):
            raise
        except EdgepackError as error:
            log.debug("not from %s: %s", place, error.message)
            if isinstance(error, HashMismatchError):
                context.note(f"{place} has a different file than the pinned one")
            failures.append((place, error))
        else:
            return place
    wrong = next((error for _, error in failures if isinstance(error, HashMismatchError)), None)
    if wrong is not None:
        raise HashMismatchError(wrong.message, hint="no other source has the right file either") from wrong
    reasons = "".join(f"\n  {place}: {error.message}" for place, error in failures)
    raise DownloadError(f"{entry.name} is not available from any source:{reasons}", hint=UNREACHABLE_HINT)


def _from_server(entry: Entry, place: str, folder: Path, context: BuildContext) -> None:
    """Every file by its own address, from the hub or from a folder on a server."""
    for file in entry.files:
        if place.startswith(hub.HUB_PREFIX):
            request = hub.file_request(place, file.path)
        else:
            request = hub.FileRequest(url=f"{place.rstrip('/')}/{file.path}")
        fetched = fetch_file(
            request.url,
            sha256=file.sha256,
            size=file.size,
            headers=request.headers,
            allow_http=request.allow_http,
            policy=PATIENT if place == entry.places[-1] else HASTY,
            context=context,
        )
        _put(fetched, folder / file.path)


def _from_wheel(entry: Entry, place: str, folder: Path, context: BuildContext) -> None:
    name, version = wheel.parse_requirement(place)
    with wheel.unpacked_wheel(name, version, within=folder, context=context) as tree:
        root = find_model(tree, f"{name} {version}")
        for file in entry.files:
            _require_content(root / file.path, file, place)
        for file in entry.files:
            _put(root / file.path, folder / file.path)


def _require_content(path: Path, file: FileDigest, place: str) -> None:
    if not path.is_file():
        raise ModelError(f"{place} has no {file.path}", hint="fetch the model again, whole")
    found = sha256_of(path)
    if found != file.sha256:
        raise HashMismatchError(
            f"{file.path} of {place} does not match its pinned digest: sha256 {found}, expected {file.sha256}"
        )


def _put(source: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    source.replace(destination)
