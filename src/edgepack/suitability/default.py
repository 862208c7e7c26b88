"""The target of a bundle for which none is named: the best of this machine's that takes the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.models.find.source import ingest
from edgepack.plugins.builder import Builder
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import PluginHost
from edgepack.recipes.registry import passes_of
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
    """The first of this machine's targets that takes the model and the settings; the last that takes the settings is not asked, for
    what it refuses the build refuses.

    Raises ``UsageError`` on a machine without targets, what the last says of settings that none takes, before a model is
    fetched, and what is raised where the model cannot be had.
    """
    # What is said of the model while it is asked about is said by the build.
    aside = replace(context, story=Story(quiet=True))
    possible: list[tuple[DefaultTarget, Target, Builder]] = []
    refused: EdgepackError | None = None
    for default in defaults_of_this_machine():
        try:
            target = _target(default, overrides, reading, host)
            possible.append((default, target, _builder(target, host, aside)))
        except REFUSALS as error:
            refused = error
    if not possible:
        assert refused is not None
        raise refused
    with context.story.step("model"):
        source = ingest(model, reading=possible[-1][1].model.reading, context=context)
    said = ""
    for default, target, builder in possible[:-1]:
        try:
            require_suitable(source, target, builder, context=aside)
        except REFUSALS as error:
            said = error.message if default.target in error.message else f"{default.target}: {error.message}"
        else:
            return Chosen(target=target, why=default.why)
    default, target, _ = possible[-1]
    return Chosen(target=target, why=f"{default.why} ({said})" if said else default.why)


def _target(default: DefaultTarget, overrides: Sequence[str], reading: Reading, host: PluginHost) -> Target:
    recipe = (f"model.recipe={default.recipe}",) if default.recipe else ()
    return with_reading(host.target(default.target, (*recipe, *overrides)), reading)


def _builder(target: Target, host: PluginHost, context: HostContext) -> Builder:
    """Raises what settings are refused with, whatever the model."""
    for options in (target.model, target.model.for_scores()):
        passes_of(options.recipe, context)
    return host.create(target, context)
