"""The documents of OCI (https://github.com/opencontainers/image-spec): descriptors, manifests, indexes; and the words in them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgepack.api import BundleError

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEXES = (INDEX, DOCKER_INDEX)
ANY_MANIFEST = (*INDEXES, MANIFEST, DOCKER_MANIFEST)
"""Docker's own forms are what some registries and tools make of OCI's."""
IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
IMAGE_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
MODELPACK = "application/vnd.cncf.model.manifest.v1+json"
MODELPACK_CONFIG = "application/vnd.cncf.model.config.v1+json"

BUNDLE = "io.github.edgepack.bundle"
"""An annotation, and the label of an image: the name of the bundle in it. What has none is not edgepack's."""
PLATFORM = "io.github.edgepack.platform"
"""An annotation of a ModelPack in an index: for which platform its bundle is. An ``artifactType`` there is lost in copies of
skopeo 1.9, and with it the index's digest."""
PART = "io.github.edgepack.part"
"""An annotation of a layer: what of a bundle it has, or ``libc``."""
TITLE = "org.opencontainers.image.title"
LICENSES = "org.opencontainers.image.licenses"
DESCRIPTION = "org.opencontainers.image.description"
FILEPATH = "org.cncf.model.filepath"

ELSEWHERE = {"architecture": "unknown", "os": "unknown"}
"""The platform of what no container runtime is to take out of an index, as build attestations have it."""
MOST = 4 << 20
"""Bytes of a manifest or configuration; registries take no larger ones."""


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """Description of a blob or manifest in another document."""

    media_type: str
    digest: str
    """``sha256:…``"""
    size: int
    """Bytes."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    platform: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """In the order in which clients written in Go say it again: a copy of theirs has the same digest."""
        return {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": self.size,
            **({"annotations": dict(sorted(self.annotations.items()))} if self.annotations else {}),
            **({"platform": dict(self.platform)} if self.platform else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Document:
    """A document that was made or fetched, with its bytes."""

    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        return digest_of(self.content)

    def descriptor(
        self,
        *,
        annotations: Mapping[str, str] | None = None,
        platform: Mapping[str, str] | None = None,
    ) -> Descriptor:
        return Descriptor(
            media_type=self.media_type,
            digest=self.digest,
            size=len(self.content),
            annotations=annotations or {},
            platform=platform or {},
        )


def digest_of(content: bytes) -> str:
    """``sha256:…``"""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def document(content: Mapping[str, Any], media_type: str) -> Document:
    """The same content gives the same bytes."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return Document(content=text.encode(), media_type=media_type)


def manifest(
    config: Descriptor,
    layers: Sequence[Descriptor],
    *,
    annotations: Mapping[str, str],
    artifact_type: str = "",
    subject: Descriptor | None = None,
) -> Document:
    content = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        **({"artifactType": artifact_type} if artifact_type else {}),
        "config": config.as_json(),
        "layers": [layer.as_json() for layer in layers],
        **({"subject": subject.as_json()} if subject else {}),
        "annotations": dict(sorted(annotations.items())),
    }
    return document(content, MANIFEST)


def index(manifests: Sequence[Descriptor], *, annotations: Mapping[str, str]) -> Document:
    content = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [each.as_json() for each in manifests],
        "annotations": dict(sorted(annotations.items())),
    }
    return document(content, INDEX)


def read_document(content: bytes, where: str) -> dict[str, Any]:
    """JSON of anyone's. Raises ``BundleError`` for what is not an object."""
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise BundleError(
            f"{where} is not a document of OCI",
            hint="the registry, or a proxy in between, sent something else",
        )
    return read


def read_descriptor(said: Any, where: str) -> Descriptor:
    """Raises ``BundleError`` for one that lacks something, or whose digest is not SHA-256."""
    from edgepack_oci.content.reference import DIGEST

    try:
        found = Descriptor(
            media_type=_text(said.get("mediaType", "")),
            digest=_text(said["digest"]),
            size=said["size"],
            annotations=_texts(said.get("annotations")),
            platform=_texts({k: v for k, v in (said.get("platform") or {}).items() if isinstance(v, str)}),
        )
        sound = DIGEST.fullmatch(found.digest) and type(found.size) is int and found.size >= 0
    except (AttributeError, KeyError, TypeError):
        sound = None
    if not sound:
        raise BundleError(
            f"{where} names content without a sha256 digest and a size", hint="push the bundle again"
        )
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _texts(said: Any) -> dict[str, str]:
    return {_text(key): _text(value) for key, value in (said or {}).items()}
