"""What devices measured of a bundle, as an artifact whose subject is its ModelPack: registries list it among the referrers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import Bundle
from edgepack_oci.content.documents import (
    BUNDLE,
    TITLE,
    Descriptor,
    Document,
    document,
    manifest,
)

STATEMENT = "application/vnd.in-toto+json"
SIGNATURE = "application/vnd.dev.sigstore.bundle.v0.3+json"
EMPTY = "application/vnd.oci.empty.v1+json"


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A record of devices: its blobs, and the manifest that names them."""

    blobs: tuple[Document, ...]
    manifest: Document


def devices_tags(tag: str, platform: str) -> tuple[str, str]:
    """Tags of a record, for clients that ask no registry for referrers: where a tag has several platforms, and where it has one."""
    return f"{tag}-devices-{platform.partition('/')[2].replace('/', '')}", f"{tag}-devices"


def proof_of(bundle: Bundle, files: Sequence[Path], subject: Descriptor) -> Proof:
    """The artifact of a record, and its signature if there is one; the same files give the same digests."""
    empty = document({}, EMPTY)
    blobs = [
        Document(content=file.read_bytes(), media_type=kind)
        for file, kind in zip(files, (STATEMENT, SIGNATURE), strict=False)
    ]
    layers = [
        blob.descriptor(annotations={TITLE: file.name}) for blob, file in zip(blobs, files, strict=True)
    ]
    made = manifest(
        empty.descriptor(),
        layers,
        annotations={BUNDLE: bundle.name},
        artifact_type=STATEMENT,
        subject=subject,
    )
    return Proof(blobs=(empty, *blobs), manifest=made)
