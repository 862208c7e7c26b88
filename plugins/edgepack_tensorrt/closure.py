"""What a library needs, found in ELF files: the least that has to go along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgepack.api import SYSTEM_LIBRARIES, BundleError, needed_libraries, soname

DRIVER_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
"""What NVIDIA's driver brings, which must be of the same version as its kernel module."""


@dataclass(frozen=True, kw_only=True)
class Closure:
    """The libraries that some others need, themselves included."""

    files: Mapping[str, Path]
    """By the name that others ask for them under."""
    host: tuple[str, ...]
    """Names that were not found, of those that may come from the building machine."""
    driver: tuple[str, ...] = field(default=())
    """Names that the device's driver brings."""


def closure_of(start: Iterable[Path], *, among: Iterable[Path], host: Iterable[str]) -> Closure:
    """All that ``start`` needs, taken from ``among``; what is in ``host`` may be missing there.

    Raises ``BundleError`` naming a library that nothing brings.
    """
    known = {soname(path) or path.name: path for path in among}
    allowed = set(host)
    files: dict[str, Path] = {}
    outside: set[str] = set()
    driver: set[str] = set()
    todo = [(path, path.name) for path in start]
    while todo:
        path, name = todo.pop()
        if name in files:
            continue
        files[name] = path
        for needed in needed_libraries(path):
            if needed in SYSTEM_LIBRARIES:
                continue
            if needed in DRIVER_LIBRARIES:
                driver.add(needed)
            elif needed in known:
                todo.append((known[needed], needed))
            elif needed in allowed:
                outside.add(needed)
            else:
                raise BundleError(
                    f"{path.name} needs {needed}, which none of the pinned wheels brings",
                    hint="the wheels are of another version than the one that edgepack knows",
                )
    return Closure(files=files, host=tuple(sorted(outside)), driver=tuple(sorted(driver)))
