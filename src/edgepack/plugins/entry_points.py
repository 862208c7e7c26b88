"""What installed distributions say that they bring, read from their metadata alone."""

import importlib.metadata
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

from edgepack.plugins.process import hosted, told_when_slow

OURS = "edgepack"


@dataclass(frozen=True, kw_only=True)
class Point:
    """An entry point, and whose it is."""

    point: EntryPoint
    distribution: str
    version: str

    @property
    def name(self) -> str:
        return self.point.name

    @property
    def value(self) -> str:
        return self.point.value

    @property
    def package(self) -> str:
        """The top-level package that it lies in: several plugins may come in one distribution."""
        return self.point.module.partition(".")[0]

    @property
    def is_ours(self) -> bool:
        """Whether edgepack itself brings it."""
        return self.distribution == OURS

    @property
    def origin(self) -> str:
        """The package, and its distribution where that is not edgepack itself."""
        return self.package if self.is_ours else f"{self.package} ({self.distribution} {self.version})"

    def load(self) -> Any:
        """Import what the entry point names. Raises whatever the import raises; people are told of one that takes long."""
        if self.is_ours:
            return self.point.load()
        plugin = self.name if self.point.group == OURS else self.package
        doing = f"importing plugin {plugin} ({self.distribution} {self.version})"
        with hosted(plugin), told_when_slow(doing, "--no-plugins leaves it out"):
            return self.point.load()


def entry_points(group: str) -> list[Point]:
    """A group's entry points by name, those of edgepack itself first: a clash of names is the newcomer's to mend."""
    # The same distribution can be found twice (an editable install beside its source folder).
    unique = {(point.name, point.value): point for point in importlib.metadata.entry_points(group=group)}
    # A distribution's metadata is parsed anew whenever it is asked for, and edgepack's own has twenty entry points.
    owners = {
        id(point.dist): _owner(point) for point in {id(each.dist): each for each in unique.values()}.values()
    }
    found = [_point(each, *owners[id(each.dist)]) for each in unique.values()]
    return sorted(found, key=lambda point: (not point.is_ours, point.name))


def _owner(point: EntryPoint) -> tuple[str, str]:
    said = point.dist.metadata if point.dist else {"Name": "?", "Version": "?"}
    return said["Name"], said["Version"]


def _point(point: EntryPoint, distribution: str, version: str) -> Point:
    return Point(point=point, distribution=distribution, version=version)
