"""Digests of a model's files. One that is mostly holes is refused before it is read: a few kilobytes stand for terabytes of zeros."""

import os
from collections.abc import Iterable
from pathlib import Path

from edgepack.errors import ModelError
from edgepack.files.store import digest_file
from edgepack.records.model import FileDigest

LARGE = 1 << 30
"""Bytes of a file that is looked at for holes."""
SHARE = 8
"""At least an eighth of its bytes are written."""


def digests_of(paths: Iterable[Path], *, directory: Path) -> list[FileDigest]:
    """The records of files of a folder. Raises ``ModelError`` for one that is mostly holes."""
    found = []
    for path in paths:
        size = path.stat().st_size
        if size > LARGE and not _is_written(path, size // SHARE):
            raise ModelError(
                f"{path.name} has {size / 1e9:.1f} GB, nearly all of which was never written",
                hint="no model is like that: copy or download the file again",
            )
        found.append(digest_file(path, relative_to=directory))
    return found


def _is_written(path: Path, least: int) -> bool:
    """Whether a file has so many bytes outside of holes. Where a file system does not tell, it has none."""
    with path.open("rb") as stream:
        hole = 0
        while least > 0:
            try:
                data = os.lseek(stream.fileno(), hole, os.SEEK_DATA)
            except OSError:
                return False
            hole = os.lseek(stream.fileno(), data, os.SEEK_HOLE)
            least -= hole - data
    return True
