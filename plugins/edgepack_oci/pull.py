"""Fetching a bundle: which one of an index, its layers, and the folder that appears when all of it is right."""

import platform as host
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, Bundle, BundleError
from edgepack.api.axes import DownloadError, HashMismatchError
from edgepack.api.kit import load_public, open_bundle, placed_folder, require_signed, unpack_layers
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
from edgepack_oci.content.image import ARCHITECTURES, platform_name
from edgepack_oci.content.layers import LIBC
from edgepack_oci.content.reference import Reference
from edgepack_oci.places.place import Place
from edgepack_oci.push import open_place

MOST_LAYERS = 128
NOT_OURS = "edgepack pulls what `edgepack push` has pushed; for other models see `edgepack bundle --help`"


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """A bundle that was fetched and checked."""

    bundle: Bundle
    reference: Reference
    """With the digest that the tag named."""
    signed: str
    """Digest of the key that it is signed with; empty: nobody asked."""


def pull(
    reference: Reference,
    output: Path | None,
    *,
    platform: str,
    key: Path | None,
    force: bool,
    plain_http: bool,
    context: BuildContext,
) -> Pulled:
    """Put the bundle that a reference names into the folder ``output``, or one with the bundle's name.

    Every document and layer is compared with the digest and size that the one before it says, every file with the bundle's manifest; with
    ``key`` it has to be signed. Only then does the folder appear. Raises ``BundleError`` for what is no bundle of edgepack's,
    ``DownloadError``, ``HashMismatchError``, ``SignatureError`` or ``OutputError``.
    """
    public = None if key is None else load_public(key)
    with open_place(reference, push=False, plain_http=plain_http, context=context) as place:
        first = place.manifest(reference.wanted)
        manifest = _bundle_manifest(place, first, reference, platform)
        name, layers = _contents(place, manifest, reference)
        files = [_layer(place, layer) for layer in layers]
        with placed_folder(output or Path(name), force=force) as folder:
            try:
                unpack_layers(files, folder)
                bundle = open_bundle(folder)
            except BundleError as error:
                message = error.message.replace(str(folder), str(reference))
                raise BundleError(message, hint="push the bundle again") from error
            signed = require_signed(bundle, public).key if public else ""
    placed = Bundle(directory=output or Path(name), manifest=bundle.manifest)
    return Pulled(bundle=placed, reference=reference.at(first.digest), signed=signed)


def _bundle_manifest(place: Place, first: Document, reference: Reference, platform: str) -> Document:
    if first.media_type not in INDEXES:
        return first
    entries = read_document(first.content, str(reference)).get("manifests")
    if not isinstance(entries, list):
        raise BundleError(f"{reference} is an index without manifests", hint=NOT_OURS)
    chosen = _chosen([read_descriptor(entry, str(reference)) for entry in entries], reference, platform)
    found = place.manifest(chosen.digest)
    if len(found.content) != chosen.size or found.digest != chosen.digest:
        raise HashMismatchError(
            f"{reference}: the manifest {chosen.digest} has {len(found.content)} bytes, its index says {chosen.size}",
            hint="the registry, or a proxy in between, sent something else",
        )
    return found


def _chosen(entries: Sequence[Descriptor], reference: Reference, platform: str) -> Descriptor:
    """The ModelPack for the platform, or the image where somebody has copied images only."""
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
            hint=f"--platform chooses one of {', '.join(choices)}" if choices else NOT_OURS,
        )
    return choices[wanted]


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
    if not isinstance(name, str) or not name or "/" in name or name.startswith("."):
        kind = said.get("artifactType") or config.media_type or "something else"
        raise BundleError(f"{reference} is not a bundle of edgepack's, but {kind}", hint=NOT_OURS)
    layers = said.get("layers")
    if not isinstance(layers, list) or not 0 < len(layers) <= MOST_LAYERS:
        raise BundleError(f"{reference} has no layers, or too many", hint="push the bundle again")
    found = [read_descriptor(layer, str(reference)) for layer in layers]
    return name, [layer for layer in found if layer.annotations.get(PART) != LIBC]


def _layer(place: Place, said: Descriptor) -> Path:
    file = place.layer(said)
    if file.stat().st_size != said.size:
        raise HashMismatchError(
            f"{said.digest} has {file.stat().st_size} bytes, its manifest says {said.size}",
            hint="push the bundle again",
        )
    return file
