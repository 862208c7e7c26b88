"""The target of a bundle for which none is named: the best of this machine's that takes the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.models.find.source import ingest
from edgepack.plugins.builder import Builder
from edgepack.plugins.context import HostContext
from edgepack.recipes.registry import passes_of
from edgepack.records.model import ModelSource
from edgepack.records.target import UNSAID, Reading, Target
from edgepack.suitability.decide import REFUSALS, require_suitable
from edgepack.targets import DefaultTarget, defaults_of_this_machine, with_reading


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A target, and why it is that one, in words."""

    target: Target
    why: str


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A default target of this machine that takes the settings."""

    default: DefaultTarget
    target: Target
    builder: Builder


def target_for(
    name: str | None,
    model: str | None,
    overrides: Sequence[str],
    reading: Reading,
    *,
    context: HostContext,
) -> Target:
    """The target that the user named, or that the model chooses, which is said. Raises as ``choose_target``."""
    if name is not None:
        return with_reading(context.plugins().target(name, overrides), reading)
    chosen = choose_target(model, overrides, reading, context=context)
    context.story.tell(f"target: {chosen.target.name}: {chosen.why}; `edgepack inspect` compares all")
    return chosen.target


def choose_target(
    model: str | None, overrides: Sequence[str], reading: Reading, *, context: HostContext
) -> Chosen:
    """The first of this machine's targets that takes the model and the settings; the last that takes the settings is not asked, for
    what it refuses the build refuses.

    Raises what ``candidates`` raises before a model is fetched, and what is raised where the model cannot be had.
    """
    # What is said of the model while it is asked about is said by the build.
    aside = replace(context, story=Story(quiet=True))
    *asked, last = candidates(overrides, reading, context=aside)
    with context.story.step("model"):
        source = ingest(model, reading=last.target.model.reading, context=context)
    said = ""
    for each in asked:
        name = each.default.target
        if lost := order_lost(source, each, last):
            said = f"{name}: {lost}"
            continue
        try:
            require_suitable(source, each.target, each.builder, context=aside)
        except REFUSALS as error:
            said = error.message if name in error.message else f"{name}: {error.message}"
        else:
            return Chosen(target=each.target, why=each.default.why)
    why = last.default.why
    return Chosen(target=last.target, why=f"{why} ({said})" if said else why)


def order_lost(source: ModelSource, candidate: Candidate, last: Candidate) -> str:
    """Why a model of which the order counts is better made for the last candidate; empty: it is not."""
    nearer = last.target.model.score_recipe
    if not source.ranks or nearer is None or candidate.target.model.score_recipe == nearer:
        return ""
    recipe = f"recipe {nearer}" if isinstance(nearer, str) else "another recipe"
    return f"the order of what {source.noun} gives takes {recipe}"


def candidates(
    overrides: Sequence[str] = (), reading: Reading = UNSAID, *, context: HostContext
) -> list[Candidate]:
    """This machine's default targets that take the settings, the better first; at least one.

    Raises ``UsageError`` on a machine without targets, and what the last says of settings that none takes.
    """
    possible: list[Candidate] = []
    refused: EdgepackError | None = None
    for default in defaults_of_this_machine():
        try:
            target = _target(default, overrides, reading, context)
            possible.append(Candidate(default=default, target=target, builder=_builder(target, context)))
        except REFUSALS as error:
            refused = error
    if not possible:
        assert refused is not None
        raise refused
    return possible


def _target(
    default: DefaultTarget, overrides: Sequence[str], reading: Reading, context: HostContext
) -> Target:
    said = any(each.startswith("model.recipe=") for each in overrides)
    recipe = (f"model.recipe={default.recipe}",) if default.recipe and not said else ()
    return with_reading(context.plugins().target(default.target, (*recipe, *overrides)), reading)


def _builder(target: Target, context: HostContext) -> Builder:
    """Raises what settings are refused with, whatever the model."""
    for options in (target.model, target.model.for_scores()):
        passes_of(options.recipe, context)
    return context.plugins().create(target, context)
