"""A folder as OCI lays images out (image-layout.md): what skopeo, podman and others read without a registry."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.api import BundleError, EdgepackError, UsageError
from edgepack.api.axes import DownloadError, HashMismatchError
from edgepack.api.kit import sha256_of, written_beside
from edgepack.files.store import copy_at_most, disk_errors
from edgepack.toml_schema import read_foreign
from edgepack_oci.content.documents import (
    INDEX,
    MANIFEST,
    MOST,
    Descriptor,
    Document,
    digest_of,
    document,
    read_descriptor,
    read_document,
)
from edgepack_oci.content.layers import Layer
from edgepack_oci.places.place import Advance, Sent

MARK, VERSION = "oci-layout", {"imageLayoutVersion": "1.0.0"}
LIST = "index.json"
TAG = "org.opencontainers.image.ref.name"


@dataclass(frozen=True, kw_only=True)
class OciLayout:
    """The place (``edgepack_oci.places.place.Place``)."""

    folder: Path
    work: Path
    """Where its layers are copied before they are compared: others may write into ``folder``."""

    def create(self) -> None:
        """Begin one in an empty or missing folder. Raises ``UsageError`` where something else is there."""
        if (self.folder / MARK).is_file():
            return
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise UsageError(f"{self.folder} exists and is not an OCI layout", hint="name another folder")
        _write(self.folder / MARK, json.dumps(VERSION).encode())
        _write(self.folder / LIST, self._list([]))

    def put_layer(self, layer: Layer, advance: Advance) -> Sent:
        path = self._path(layer.digest)
        there = path.is_file() and f"sha256:{sha256_of(path)}" == layer.digest
        if not there:
            with written_beside(path) as beside:
                copy_at_most(layer.file, beside, layer.size)
        advance(layer.size)
        return "there" if there else "sent"

    def put_config(self, config: Document) -> None:
        _write(self._path(config.digest), config.content)

    def put_manifest(self, manifest: Document, tag: str = "") -> None:
        _write(self._path(manifest.digest), manifest.content)
        if tag:
            named = {**manifest.descriptor().as_json(), "annotations": {TAG: tag}}
            others = [each for each in self._entries() if each.get("annotations", {}).get(TAG) != tag]
            _write(self.folder / LIST, self._list([*others, named]))

    def manifest(self, wanted: str) -> Document:
        entries = [read_descriptor(each, f"{self.folder}/{LIST}") for each in self._entries()]
        named = {each.annotations.get(TAG, ""): each for each in entries} | {
            each.digest: each for each in entries
        }
        if wanted in named:
            digest, media_type = named[wanted].digest, named[wanted].media_type
        elif wanted.startswith("sha256:"):
            digest, media_type = wanted, ""
        else:
            tags = ", ".join(sorted(filter(None, (each.annotations.get(TAG) for each in entries))))
            raise DownloadError(
                f"there is no {wanted} in {self.folder}", hint=f"tags there: {tags or 'none'}"
            )
        content = self._read(digest)
        said = str(
            read_document(content, f"{self.folder}: {digest}").get("mediaType") or media_type or MANIFEST
        )
        return Document(content=content, media_type=said)

    def config(self, said: Descriptor) -> bytes:
        return self._read(said.digest)

    def layer(self, said: Descriptor) -> Path:
        """A copy of what its digest says, compared."""
        path, copy = self._path(said.digest), self.work / said.digest.replace(":", "-")
        copy.parent.mkdir(exist_ok=True)
        try:
            if path.exists() and not path.is_file():  # a pipe would be waited for
                raise DownloadError(f"{path} is no file", hint="copy the whole folder again")
            if (size := path.stat().st_size) != said.size:
                raise HashMismatchError(
                    f"{path} is damaged: it has {size} bytes, and not {said.size}",
                    hint="copy the folder again",
                )
            with disk_errors(copy):
                copy_at_most(path, copy, said.size)
        except OSError as error:
            raise DownloadError(
                f"{path} cannot be read: {error.strerror}", hint="copy the whole folder again"
            ) from error
        if (found := f"sha256:{sha256_of(copy)}") != said.digest:
            raise HashMismatchError(f"{path} is damaged: it is {found}", hint="copy the folder again")
        return copy

    def _read(self, digest: str) -> bytes:
        path = self._path(digest)
        content = _read(path, f"{path} cannot be read", DownloadError, hint="copy the whole folder again")
        if (found := digest_of(content)) != digest:
            raise HashMismatchError(f"{path} is damaged: it is {found}", hint="copy the folder again")
        return content

    def _path(self, digest: str) -> Path:
        algorithm, _, number = digest.partition(":")
        return self.folder / "blobs" / algorithm / number

    def _entries(self) -> list[dict[str, Any]]:
        path = self.folder / LIST
        content = _read(
            path,
            f"{self.folder} is not an OCI layout: no {LIST}",
            BundleError,
            hint="name the folder that has it",
        )
        entries = read_document(content, str(path)).get("manifests", [])
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            raise BundleError(f"{path} is not a document of OCI", hint="copy the folder again")
        return entries

    def _list(self, manifests: list[dict[str, Any]]) -> bytes:
        return document({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}, INDEX).content


def _read(path: Path, unread: str, error: type[EdgepackError], *, hint: str) -> bytes:
    """A document of the folder, which anybody may have made. Raises ``error``, which begins with ``unread``."""
    try:
        return read_foreign(path, most=MOST)
    except OSError as refused:
        raise error(f"{unread}: {refused.strerror}", hint=hint) from refused
    except ValueError as refused:
        raise error(str(refused), hint=hint) from refused


def _write(path: Path, content: bytes) -> None:
    if path.is_file() and digest_of(path.read_bytes()) == digest_of(content):
        return
    with written_beside(path) as beside:
        beside.write_bytes(content)
