"""Zips around a bundle: the same members give the same bytes on any day."""

import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from edgepack.api import Bundle, UsageError
from edgepack.api.axes import bundle_entries
from edgepack.files.pack import add_to_zip

DATE = (1980, 1, 1, 0, 0, 0)

Members = Mapping[str, bytes | Path]


def members_of(bundle: Bundle, *, form: str, top: str) -> Iterator[tuple[str, Path]]:
    """Name and file of all that a bundle's folder holds, below ``top``. Raises ``UsageError`` for a bundle with links."""
    for entry in bundle_entries(bundle, top=top):
        assert isinstance(entry.source, Path)
        if entry.source.is_symlink():
            raise UsageError(
                f"package form {form} holds no symbolic links, this bundle does: {entry.source.name}"
            )
        if entry.source.is_file():
            yield entry.name, entry.source


def write_zip(out: IO[bytes], members: Members) -> None:
    """Write files alone, no folders, in their order."""
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            executable = isinstance(content, Path) and os.access(content, os.X_OK)
            add_to_zip(archive, info_of(name, executable=executable), content)


def info_of(name: str, *, executable: bool) -> zipfile.ZipInfo:
    """A member to be."""
    info = zipfile.ZipInfo(name, DATE)
    info.external_attr = (0o755 if executable else 0o644) << 16
    return info
