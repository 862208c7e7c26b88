"""All checks, by what they look at."""

from collections.abc import Iterator, Sequence

from edgepack.testing import building, contents, hindered, models, programs, registration, specs
from edgepack.testing.check import KitCheck
from edgepack.testing.kit import PluginSubject
from edgepack.testing.specs import SpecSubject

PLUGIN_CHECKS: Sequence[KitCheck] = registration.CHECKS
TARGET_CHECKS: Sequence[KitCheck] = (
    *building.CHECKS,
    *hindered.CHECKS,
    *contents.CHECKS,
    *programs.CHECKS,
)
BY_AXIS = {**specs.BY_AXIS, **{axis: (*specs.EVERY, *own) for axis, own in models.BY_AXIS.items()}}
ALL_CHECKS = {
    "Of a plugin": PLUGIN_CHECKS,
    "Of a target": TARGET_CHECKS,
    **{f"Of the axis {axis}": checks for axis, checks in BY_AXIS.items()},
}


def checks_of_specs(plugin: PluginSubject) -> Iterator[tuple[SpecSubject, Sequence[KitCheck]]]:
    """Parts that a plugin brings beside builders, each with its checks."""
    for spec in plugin.info.specs:
        if spec.axis != "builder":
            yield SpecSubject(plugin.kit, plugin, spec), BY_AXIS.get(spec.axis, specs.EVERY)
