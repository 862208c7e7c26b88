"""Fetching a bundle: which one of an index, its layers, and the folder that appears when all of it is right."""

import platform as host
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgepack.api import BuildContext, Bundle, BundleError, EdgepackError, UsageError
from edgepack.api.axes import DownloadError, HashMismatchError
from edgepack.api.kit import (
    PublicKey,
    Word,
    load_public,
    open_bundle,
    require_numbers,
    require_signed,
    require_version,
    word_of_bundle,
)
from edgepack.bundles.archive import unpack_layers
from edgepack.bundles.place import held_place, placed_folder
from edgepack.device.record import lay_record_files
from edgepack.files.archives import MAX_UNPACKED
from edgepack.signing.signatures import require_name
from edgepack.terminal_text import foreign
from edgepack_oci.content.documents import (
    BUNDLE,
    DOCKER_CONFIG,
    IMAGE_CONFIG,
    INDEXES,
    PART,
    PLATFORM,
    Descriptor,
    Document,
    read_descriptor,
    read_document,
)
from edgepack_oci.content.image import ARCHITECTURES, platform_name, platform_of
from edgepack_oci.content.layers import LIBC
from edgepack_oci.content.proof import SIGNATURE, STATEMENT, devices_tags
from edgepack_oci.content.reference import Reference
from edgepack_oci.places.place import Place
from edgepack_oci.push import open_place

MOST_LAYERS = 128
MOST_SAID = 20
"""Platforms that an error names."""
LONGEST_NAME = 200
"""Letters of a bundle's name."""
NOT_OURS = "edgepack pulls what `edgepack push` has pushed; for other models see `edgepack bundle --help`"


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """A bundle that was fetched and checked."""

    bundle: Bundle
    reference: Reference
    """With the digest that the tag named."""
    said_by: Word
    """Whose word its name, its version and all else in its manifest are."""
    devices: Path | None = None
    """The record of what devices measured of it, which came along; whose word that is, its signature says."""

    @property
    def version(self) -> str:
        """Version as its manifest says it; may be empty."""
        return str(self.bundle.manifest.get("version", ""))


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Conditions on the bundle."""

    key: Path | None = None
    """File of the public key that it has to be signed with."""
    name: str | None = None
    min_version: str | None = None

    def __post_init__(self) -> None:
        """Raises ``UsageError`` for what nobody could rely on."""
        if self.min_version is not None:
            require_numbers(self.min_version)
        for option, value in (("--name", self.name), ("--min-version", self.min_version)):
            if value is not None and self.key is None:
                raise UsageError(
                    f"{option} requires --key: without a signature anyone can write a name and a version",
                    hint="--key names the public key",
                )


def pull(
    reference: Reference,
    output: Path | None,
    *,
    platform: str,
    wanted: Wanted,
    force: bool,
    plain_http: bool,
    context: BuildContext,
) -> Pulled:
    """Put the bundle that a reference names into the folder ``output``, or one with the bundle's name.

    Every document and layer is compared with the digest and size that the one before it says, every file with the bundle's manifest, and the
    bundle with what is ``wanted``. Only then does the folder appear. Raises ``BundleError`` for what is no bundle of edgepack's,
    ``DownloadError``, ``HashMismatchError``, ``SignatureError`` or ``OutputError``.
    """
    public = None if wanted.key is None else load_public(wanted.key)
    with open_place(reference, push=False, plain_http=plain_http, context=context) as place:
        first = place.manifest(reference.wanted)
        manifest, platform = _bundle_manifest(place, first, reference, platform)
        name, layers = _contents(place, manifest, reference)
        files = [_layer(place, layer) for layer in layers]
        destination = output or Path(name)
        waiting = f"another run is putting {destination} in its place: waiting until it is done"
        with held_place(destination.absolute(), waiting=partial(context.warn, waiting)):
            with placed_folder(destination, force=force) as folder:
                try:
                    unpack_layers(files, folder)
                    bundle = open_bundle(folder)
                except BundleError as error:
                    message = error.message.replace(str(folder), str(reference))
                    raise BundleError(message, hint="push the bundle again") from error
                said_by = _require_wanted(bundle, wanted, public, (name, platform), reference, context)
            placed = Bundle(directory=destination, manifest=bundle.manifest)
            devices = _devices(place, reference, placed, force, context)
    return Pulled(bundle=placed, reference=reference.at(first.digest), said_by=said_by, devices=devices)


def _devices(
    place: Place, reference: Reference, bundle: Bundle, force: bool, context: BuildContext
) -> Path | None:
    """The record that was pushed with a bundle, beside its folder; what is wrong with it leaves the bundle as right as it is."""
    for tag in devices_tags(reference.tag, platform_name(platform_of(bundle))):
        manifest = None
        try:
            manifest = place.manifest(tag)
            record, signature = _record_of(place, manifest, f"{reference.tagged(tag)}")
            file = lay_record_files(bundle, record, signature, force=force, store=context.store)
        except EdgepackError as error:
            # Most have none.
            if manifest is not None or not isinstance(error, DownloadError):
                context.warn(f"{reference.tagged(tag)}: {error.message}")
            continue
        if file is None:
            context.warn(f"what devices measured was not kept: another record lies beside {bundle.directory}")
        return file
    return None


def _record_of(place: Place, manifest: Document, where: str) -> tuple[bytes, bytes | None]:
    """A record and its signature. Raises ``BundleError``, ``DownloadError`` and ``HashMismatchError``."""
    layers = read_document(manifest.content, where).get("layers")
    if not isinstance(layers, list) or not 0 < len(layers) <= 2:
        raise BundleError("it is no record of devices", hint="push it again")
    said = {each.media_type: each for each in (read_descriptor(layer, where) for layer in layers)}
    if STATEMENT not in said:
        raise BundleError("it is no record of devices", hint="push it again")
    signature = said.get(SIGNATURE)
    return place.config(said[STATEMENT]), None if signature is None else place.config(signature)


def _require_wanted(
    bundle: Bundle,
    wanted: Wanted,
    public: PublicKey | None,
    said: tuple[str, str],
    reference: Reference,
    context: BuildContext,
) -> Word:
    """Whose word it is. Raises ``SignatureError`` where it is not signed or another bundle, ``BundleError`` for a false annotation."""
    if public is None:
        said_by = word_of_bundle(bundle, store=context.store)
    else:
        said_by = Word(whose="key", key=require_signed(bundle, public).key)
    if wanted.name is not None:
        require_name(bundle, wanted.name)
    if wanted.min_version is not None:
        require_version(bundle, wanted.min_version)
    for what, holds in zip(said, (bundle.name, platform_name(platform_of(bundle))), strict=True):
        if what and holds != what:
            raise BundleError(
                f"{reference} says that it holds {foreign(what)}, and holds {foreign(holds)}",
                hint="push the bundle again",
            )
    return said_by


def _bundle_manifest(
    place: Place, first: Document, reference: Reference, platform: str
) -> tuple[Document, str]:
    """The manifest of the bundle for a platform, and which one it is said to be for; empty where nobody says."""
    if first.media_type not in INDEXES:
        return first, platform
    entries = read_document(first.content, str(reference)).get("manifests")
    if not isinstance(entries, list):
        raise BundleError(f"{reference} is an index without manifests", hint=NOT_OURS)
    platform, chosen = _chosen(
        [read_descriptor(entry, str(reference)) for entry in entries], reference, platform
    )
    found = place.manifest(chosen.digest)
    if len(found.content) != chosen.size or found.digest != chosen.digest:
        raise HashMismatchError(
            f"{reference}: the manifest {chosen.digest} has {len(found.content)} bytes, its index says {chosen.size}",
            hint="the registry, or a proxy in between, sent something else",
        )
    return found, platform


def _chosen(entries: Sequence[Descriptor], reference: Reference, platform: str) -> tuple[str, Descriptor]:
    """The platform, and the ModelPack for it, or the image where somebody has copied images only."""
    models = {said: entry for entry in entries if (said := entry.annotations.get(PLATFORM))}
    images = {
        platform_name(entry.platform): entry
        for entry in entries
        if {"os", "architecture"} <= entry.platform.keys()
    }
    choices = models or images
    if platform:
        wanted = platform
    else:
        machine = host.machine()
        wanted = (
            next(iter(choices), "") if len(choices) == 1 else f"linux/{ARCHITECTURES.get(machine, machine)}"
        )
    if wanted not in choices:
        raise DownloadError(
            f"{reference} has no bundle for {wanted}",
            hint=f"--platform chooses one of {foreign(', '.join(list(choices)[:MOST_SAID]))}"
            if choices
            else NOT_OURS,
        )
    return wanted, choices[wanted]


def _contents(place: Place, manifest: Document, reference: Reference) -> tuple[str, list[Descriptor]]:
    """The bundle's name and layers. Raises ``BundleError`` before any layer is fetched of what is none."""
    said = read_document(manifest.content, str(reference))
    annotations = said.get("annotations")
    name = annotations.get(BUNDLE) if isinstance(annotations, dict) else None
    config = read_descriptor(said.get("config"), str(reference))
    if name is None and config.media_type in (IMAGE_CONFIG, DOCKER_CONFIG):
        inner = read_document(place.config(config), str(reference)).get("config")
        labels = inner.get("Labels") if isinstance(inner, dict) else None
        name = labels.get(BUNDLE) if isinstance(labels, dict) else None
    if not isinstance(name, str) or not _is_name(name):
        kind = foreign(str(said.get("artifactType") or config.media_type or "something else")[:200])
        raise BundleError(f"{reference} is not a bundle of edgepack's, but {kind}", hint=NOT_OURS)
    layers = said.get("layers")
    if not isinstance(layers, list) or not 0 < len(layers) <= MOST_LAYERS:
        raise BundleError(f"{reference} has no layers, or too many", hint="push the bundle again")
    found = [read_descriptor(layer, str(reference)) for layer in layers]
    if (size := sum(layer.size for layer in found)) > MAX_UNPACKED:
        raise BundleError(f"{reference} says that it has {size:,} bytes", hint="no bundle is as large")
    return name, [layer for layer in found if layer.annotations.get(PART) != LIBC]


def _is_name(name: str) -> bool:
    """Whether a folder may be called that by anyone: it stays in its place, and a terminal shows it as it is."""
    return (
        0 < len(name) <= LONGEST_NAME
        and not name.startswith(".")
        and not {*name} & {*"/\\"}
        and foreign(name) == name
    )


def _layer(place: Place, said: Descriptor) -> Path:
    file = place.layer(said)
    if file.stat().st_size != said.size:
        raise HashMismatchError(
            f"{said.digest} has {file.stat().st_size} bytes, its manifest says {said.size}",
            hint="push the bundle again",
        )
    return file
