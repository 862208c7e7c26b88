"""Which repository of a registry has which blobs, as far as this machine has pushed them: others take them from there."""

from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext
from edgepack.api.kit import written_beside


@dataclass(frozen=True, kw_only=True)
class Mounts:
    """Blobs of one registry. What is remembered may be wrong by now: a registry that does not find it asks for the blob."""

    registry: str
    context: BuildContext

    def source_of(self, digest: str) -> str:
        """A repository that had the blob, or nothing."""
        try:
            return self._file(digest).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def remember(self, digest: str, repository: str) -> None:
        if self.source_of(digest) != repository:
            with written_beside(self._file(digest)) as beside:
                beside.write_text(repository, encoding="utf-8")

    def _file(self, digest: str) -> Path:
        folder = self.context.store.folder("oci-mounts", {"registry": self.registry})
        return folder / digest.removeprefix("sha256:")
