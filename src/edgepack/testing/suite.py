"""All checks, by what they look at."""

from collections.abc import Iterator, Sequence
from typing import Any

from edgepack.testing import building, programs, registration
from edgepack.testing.check import Check
from edgepack.testing.kit import PluginSubject

PLUGIN_CHECKS: Sequence[Check] = registration.CHECKS
TARGET_CHECKS: Sequence[Check] = (*building.CHECKS, *programs.CHECKS)
ALL_CHECKS = {"Of a plugin": PLUGIN_CHECKS, "Of a target": TARGET_CHECKS}


def checks_of_specs(plugin: PluginSubject) -> Iterator[tuple[Any, Sequence[Check]]]:
    """What a plugin brings beside builders, each with its checks."""
    yield from ()
