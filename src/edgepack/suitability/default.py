"""The target of a bundle for which none is named: the best of this machine's that takes the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgepack.console import Story
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import PluginHost
from edgepack.records.model import ModelSource
from edgepack.records.target import Reading, Target
from edgepack.suitability.decide import REFUSALS, require_suitable
from edgepack.targets import DefaultTarget, defaults_of_this_machine, with_reading


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A target, and why it is that one, in words."""

    target: Target
    why: str


def choose_target(
    model: str | None, overrides: Sequence[str], reading: Reading, *, host: PluginHost, context: HostContext
) -> Chosen:
    """The first of this machine's targets that takes the model and the settings; the last is not asked, for what it refuses the build refuses.

    Raises ``UsageError`` on a machine without targets, and what is raised where the model cannot be had.
    """
    *better, last = defaults_of_this_machine()
    fallback = _target(last, overrides, reading, host)
    with context.story.step("model"):
        source = ingest(model, reading=fallback.model.reading, context=context)
    refused = ""
    for default in better:
        try:
            target = _target(default, overrides, reading, host)
            _ask(source, target, host, context)
        except REFUSALS as error:
            refused = error.message
            if default.target not in refused:
                refused = f"{default.target}: {refused}"
        else:
            return Chosen(target=target, why=default.why)
    return Chosen(target=fallback, why=f"{last.why} ({refused})")


def _target(default: DefaultTarget, overrides: Sequence[str], reading: Reading, host: PluginHost) -> Target:
    recipe = (f"model.recipe={default.recipe}",) if default.recipe else ()
    return with_reading(host.target(default.target, (*recipe, *overrides)), reading)


def _ask(source: ModelSource, target: Target, host: PluginHost, context: HostContext) -> None:
    # What is said of the model while it is asked about is said by the build.
    aside = replace(context, story=Story(quiet=True))
    require_suitable(source, target, host.create(target, aside), context=aside)
