"""What installed distributions say that they bring, read from their metadata alone."""

import importlib.metadata
from importlib.metadata import EntryPoint

OURS = "edgepack"


def entry_points(group: str) -> list[EntryPoint]:
    """A group's entry points by name, those of edgepack itself first: a clash of names is the newcomer's to mend."""
    # The same distribution can be found twice (an editable install beside its source folder).
    unique = {(point.name, point.value): point for point in importlib.metadata.entry_points(group=group)}
    return sorted(unique.values(), key=lambda point: (not is_ours(point), point.name))


def origin(point: EntryPoint) -> str:
    """Whose an entry point is: the package, and its distribution where that is not edgepack itself."""
    if is_ours(point) or point.dist is None:
        return package(point)
    return f"{package(point)} ({point.dist.name} {point.dist.version})"


def package(point: EntryPoint) -> str:
    """The top-level package that an entry point lies in: several plugins may come in one distribution."""
    return point.module.partition(".")[0]


def is_ours(point: EntryPoint) -> bool:
    """Whether edgepack itself brings it."""
    return point.dist is not None and point.dist.name == OURS
