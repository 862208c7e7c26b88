"""Which shared libraries have to go along with some others: what ELF files name, followed to the end."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgepack.errors import BundleError
from edgepack.files.elf import is_system_library, needed_libraries, soname, unused_libraries


@dataclass(frozen=True, kw_only=True)
class Closure:
    """The libraries that some others need, themselves included."""

    files: Mapping[str, Path]
    """By the name that others ask for them under."""
    elsewhere: tuple[str, ...] = ()
    """Of the names that something else brings, those that a file asks for; sorted."""
    unused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """File → libraries that it names and imports nothing of, where there are any; they were not followed."""


def closure_of(
    start: Iterable[Path],
    *,
    among: Iterable[Path],
    elsewhere: Collection[str] = (),
    versioned: Collection[str] = (),
) -> Closure:
    """All that ``start`` needs, taken from ``among``, whose files are known by their ``DT_SONAME``.

    ``elsewhere`` names what the device or the building machine brings beside the C library; it is never taken from
    ``among``. ``versioned`` names libraries all of whose symbols have versions: a file that names one of them and imports
    no symbol of it does not need it. Raises ``BundleError`` naming a library that nothing brings.
    """
    known = {soname(path) or path.name: path for path in among}
    files: dict[str, Path] = {}
    unused: dict[str, tuple[str, ...]] = {}
    outside: set[str] = set()
    todo = [(path.name, path) for path in start]
    while todo:
        name, path = todo.pop()
        if name in files:
            continue
        files[name] = path
        idle = unused_libraries(path, among=versioned) if versioned else ()
        if idle:
            unused[name] = idle
        for needed in needed_libraries(path):
            if is_system_library(needed) or needed in idle:
                continue
            if needed in elsewhere:
                outside.add(needed)
            elif needed in known:
                todo.append((needed, known[needed]))
            else:
                raise BundleError(
                    f"{path.name} needs {needed}, which is in none of the pinned wheels",
                    hint="the wheels are not of the version that edgepack supports",
                )
    return Closure(files=files, elsewhere=tuple(sorted(outside)), unused=unused)
