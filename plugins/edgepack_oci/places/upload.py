"""One blob sent to a registry: linked from another repository, or uploaded; a broken upload goes on where it broke."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin

from edgepack.api import EdgepackError
from edgepack.fetch.http import PATIENT, retrying
from edgepack_oci.content.layers import Layer
from edgepack_oci.places.place import Advance, Sent

if TYPE_CHECKING:
    from edgepack_oci.places.registry import Answer, Registry

PIECE = 1 << 18
MIN_GAIN = 1 << 20
"""Bytes that count as getting further, so that a large blob outlives any number of short connections."""


@dataclass(kw_only=True)
class _Upload:
    """An upload under way."""

    registry: Registry
    layer: Layer
    advance: Advance
    location: str = ""
    """Where the next bytes go; empty: it has to begin anew."""
    offset: int = 0
    """Bytes that the registry has."""
    sure: bool = True
    """Whether ``offset`` is known, or was before a connection broke."""
    told: int = 0
    counted_from: int = 0

    def gained(self) -> bool:
        if self.offset < self.counted_from + MIN_GAIN:
            return False
        self.counted_from = self.offset
        return True

    def tell(self, offset: int) -> None:
        """Count the progress: what is sent twice is not counted twice."""
        if offset > self.told:
            self.advance(offset - self.told)
            self.told = offset


def upload(registry: Registry, layer: Layer, *, source: str, advance: Advance) -> Sent:
    """Send a blob that the repository lacks. ``source`` is a repository that may have it. Raises ``UploadError``."""
    url = f"{registry.base}/blobs/uploads/"
    begun = (
        f"{url}?mount={layer.digest}&from={quote(source, safe='')}"
        if source and source != registry.reference.name
        else url
    )
    answer = registry.ask("POST", begun, takes=(201, 202))
    if answer.status == 201:
        advance(layer.size)
        return "mounted"
    going = _Upload(
        registry=registry, layer=layer, advance=advance, location=_location(registry, answer, url)
    )
    retrying(
        url,
        lambda: _send(going),
        policy=PATIENT,
        gained=going.gained,
        error=registry.error,
        doing="push to",
        unreachable="the connection breaks again and again: try again later, what has arrived is not sent again",
    )
    return "sent"


def _send(going: _Upload) -> None:
    """Send the part that the registry lacks, and the word that it is all."""
    registry, layer = going.registry, going.layer
    if not going.sure:
        _ask_offset(going)
    going.sure = False
    if going.offset < layer.size:
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(layer.size - going.offset),
            "Content-Range": f"{going.offset}-{layer.size - 1}",
        }
        answer = registry.try_once(
            "PATCH", going.location, takes=(201, 202, 204), headers=headers, content=lambda: _rest(going)
        )
        going.offset, going.location = layer.size, _location(registry, answer, going.location)
    mark = "&" if "?" in going.location else "?"
    registry.try_once(
        "PUT",
        f"{going.location}{mark}digest={quote(layer.digest)}",
        takes=(201, 204),
        headers={"Content-Length": "0"},
    )
    going.tell(layer.size)


def _rest(going: _Upload) -> Iterator[bytes]:
    with going.layer.file.open("rb") as stream:
        stream.seek(going.offset)
        at = going.offset
        while piece := stream.read(PIECE):
            yield piece
            at += len(piece)
            going.tell(at)


def _ask_offset(going: _Upload) -> None:
    """How much of a broken upload has arrived; one that the registry has forgotten, or has nothing of, begins anew."""
    registry, answer, arrived = going.registry, None, None
    with suppress(EdgepackError):
        answer = registry.try_once("GET", going.location, takes=(200, 204))
        arrived = re.fullmatch(r"(?:bytes=)?0-([0-9]{1,18})", answer.headers.get("range", ""))
    if answer is None or arrived is None or not 0 < int(arrived.group(1)) < going.layer.size:
        url = f"{registry.base}/blobs/uploads/"
        answer = registry.try_once("POST", url, takes=(202,))
        going.offset, going.location = 0, _location(registry, answer, url)
    else:
        going.offset = int(arrived.group(1)) + 1
        going.location = _location(registry, answer, going.location)
    going.sure = True


def _location(registry: Registry, answer: Answer, url: str) -> str:
    """Address at which the upload goes on. The registry's word: without credentials where it leads to another host."""
    location = answer.headers.get("location")
    if not location:
        raise registry.error(
            f"{registry.reference.registry} does not say where an upload goes",
            hint="it is no registry of OCI's",
        )
    return urljoin(url, location)
