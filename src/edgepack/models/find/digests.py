"""Digests of a model's files. One that is mostly holes is refused before it is read: a few kilobytes stand for terabytes of zeros."""

from collections.abc import Iterable
from pathlib import Path

from edgepack.errors import ModelError
from edgepack.files.store import digest_file, is_mostly_holes
from edgepack.records.model import FileDigest


def digests_of(paths: Iterable[Path], *, directory: Path) -> list[FileDigest]:
    """The records of files of a folder. Raises ``ModelError`` for one that is mostly holes."""
    found = []
    for path in paths:
        if is_mostly_holes(path):
            raise ModelError(
                f"{path.name} has {path.stat().st_size / 1e9:.1f} GB, nearly all of which was never written",
                hint="no model is like that: copy or download the file again",
            )
        found.append(digest_file(path, relative_to=directory))
    return found
