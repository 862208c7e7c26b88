"""Where releases lie: what a registry and a folder have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from edgepack_oci.content.documents import Descriptor, Document
from edgepack_oci.content.layers import Layer

Advance = Callable[[int], None]
Sent = Literal["sent", "there", "mounted"]
"""What became of a blob: sent; there already; there in another repository, and linked."""


class Place(Protocol):
    """One repository."""

    def put_layer(self, layer: Layer, advance: Advance) -> Sent:
        """See to it that the layer is there; ``advance`` is told its bytes."""

    def put_config(self, config: Document) -> None:
        """See to it that a configuration is there."""

    def put_manifest(self, manifest: Document, tag: str = "") -> None:
        """Add a manifest whose parts are all there, by its digest or under a tag, which then names nothing else."""

    def manifest(self, wanted: str) -> Document:
        """Document of a tag or a digest. Raises ``DownloadError``; ``HashMismatchError`` where it is not that digest's."""

    def config(self, said: Descriptor) -> bytes:
        """A small blob, checked."""

    def layer(self, said: Descriptor) -> Path:
        """A file with a layer, checked by digest and size."""
