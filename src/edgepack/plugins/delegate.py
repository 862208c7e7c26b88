"""A builder that another one delegates to: the wrapper of a form, a system or a device around bundles that exist."""

from dataclasses import dataclass, replace

from edgepack.context import BuildContext, perhaps_broken
from edgepack.errors import PluginError
from edgepack.options import OptionTable
from edgepack.plugins.builder import PENDING, RegisteredBuilder
from edgepack.plugins.host import load_plugins
from edgepack.plugins.spec import TargetBuilder
from edgepack.records.target import Target
from edgepack.terminal_text import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Delegate:
    """A builder as others use it. What fails in it is the fault of its own plugin, and what it returns is checked."""

    registered: RegisteredBuilder

    def options(self) -> OptionTable:
        """Its own options with their defaults."""
        return self.registered.options()

    def missing(self, target: Target) -> tuple[str, ...]:
        """Names of tools that it would miss on this host."""
        return self.registered.missing(self._own(target))

    def fetch(self, target: Target, context: BuildContext) -> None:
        """Put into the store what its builder needs beside the model."""
        self.registered.fetch(self._own(target), context)

    def create(self, target: Target, context: BuildContext) -> TargetBuilder:
        """The object that makes the parts of a bundle, for the same target with those of its options that this builder knows."""
        return self.registered.create(self._own(target), context)

    def _own(self, target: Target) -> Target:
        known = self.options()
        options = {name: value for name, value in target.options.items() if name in known}
        return replace(target, builder=self.registered.spec.name, options=options)


def builder_of(name: str) -> Delegate:
    """The builder of that name, for another to delegate to. Raises ``PluginError`` for one that is not there.

    Builders that delegate in a circle end in a ``PluginError`` once one is asked again.
    """
    asked = PENDING.get(None)
    known = asked.builders() if asked else load_plugins().builders
    if name not in known:
        raise PluginError(
            f"there is no builder {name} to delegate to{did_you_mean(name, known)}",
            hint="`edgepack plugins` lists what is installed" + perhaps_broken(known),
        )
    return Delegate(registered=known[name])
