"""Whether there is room on the disks for what is about to be made."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from edgepack.errors import DiskFullError, OutputError
from edgepack.files.store import free_bytes, nearest, room_hint

FLOOR = 16_000_000
"""Bytes without which nothing is begun."""


def require_room(*, output: Path, cache: Path, made: int = 0, archives: int = 0, cached: int = 0) -> None:
    """Raise ``OutputError`` for a place that no file system keeps, and ``DiskFullError`` where a disk has less than a build takes there, in bytes: a folder and its archives, and the cache."""
    places = {output: made + archives, cache: cached, Path(tempfile.gettempdir()): 0}
    for path, size in _by_disk(places).items():
        if not shutil.disk_usage(nearest(path)).total:
            raise OutputError(
                f"{path} is on no disk: no folder can be made there", hint=room_hint(path, cache=cache)
            )
        if (free := free_bytes(path)) < size + FLOOR:
            raise DiskFullError(
                f"the disk that holds {path} has {free / 1e6:.0f} MB free, and this build takes about "
                f"{(size + FLOOR) / 1e6:.0f} MB there",
                hint=room_hint(path, cache=cache),
            )


def _by_disk(places: Mapping[Path, int]) -> dict[Path, int]:
    """Bytes by the first path on each disk."""
    found: dict[int, Path] = {}
    sizes: dict[Path, int] = {}
    for path, size in places.items():
        first = found.setdefault(nearest(path).stat().st_dev, path)
        sizes[first] = sizes.get(first, 0) + size
    return sizes
