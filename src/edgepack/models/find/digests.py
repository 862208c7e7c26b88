"""Digests of a model's files, of which none is read that a few kilobytes make of: holes, or one file under thousands of names."""

from collections.abc import Iterable
from pathlib import Path

from edgepack.errors import ModelError
from edgepack.files.store import digest_file, inflated
from edgepack.records.model import FileDigest


def digests_of(paths: Iterable[Path], *, directory: Path) -> list[FileDigest]:
    """The records of files of a folder. Raises ``ModelError`` for one that is mostly holes, or that many names lead to."""
    paths = tuple(paths)
    if odd := inflated(paths):
        raise ModelError(
            f"{odd[0].name} has {odd[0].stat().st_size / 1e9:.1f} GB: {odd[1]}",
            hint="no model is like that: copy or download the file again",
        )
    return [digest_file(path, relative_to=directory) for path in paths]
