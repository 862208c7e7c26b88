"""A row for each target: whether it takes a model, with which recipe, and what comes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.models.read.static import is_static_source
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource
from edgepack.records.suitability import Suitability
from edgepack.records.target import Target
from edgepack.suitability.decide import REFUSALS, Suited, require_suitable
from edgepack.suitability.default import candidates, order_lost
from edgepack.suitability.measured import Made, measured
from edgepack.targets import device_here, device_of

WEIGHTS, TOKENIZER = "model", "tokenizer"
"""Parts of a report that are larger for a larger model."""


def suitability(source: ModelSource, *, context: HostContext) -> tuple[Suitability, ...]:
    """A row for each target that is installed: those for this machine's processor first."""
    return tuple(_rows(source, context))


def recommended(
    source: ModelSource, rows: Sequence[Suitability], *, context: HostContext
) -> Suitability | None:
    """The target and recipe that `edgepack bundle` takes without ``--target``: of this machine's defaults the first that takes the model.

    Where there is none, another of ``rows`` that takes it, one for this machine first.
    """
    try:
        defaults = candidates(context=replace(context, story=Story(quiet=True)))
        defaults = [each for each in defaults if not order_lost(source, each, defaults[-1])]
    except REFUSALS:
        defaults = []
    taken = (row for each in defaults if (row := _row(source, each.target, context)).taken)
    others = sorted((row for row in rows if row.taken), key=lambda row: row.device != device_here())
    return next(taken, next(iter(others), None))


def _rows(source: ModelSource, context: HostContext) -> Iterator[Suitability]:
    host = context.plugins()
    for name in sorted(host.target_files):
        try:
            target = host.target(name)
        except EdgepackError:
            continue  # `edgepack targets` says what is wrong with it.
        yield _row(source, target, context)


def _row(source: ModelSource, target: Target, context: HostContext) -> Suitability:
    host = context.plugins()
    # What is said of the model while it is asked about belongs into its row.
    aside = replace(context, story=Story(quiet=True))
    row = Suitability(
        target=target.name,
        best_for=target.best_for or target.summary,
        device=device_of(target.platform),
        taken=True,
    )
    try:
        suited = require_suitable(source, target, host.create(target, aside), context=aside)
    except REFUSALS as error:
        return replace(row, taken=False, reason=error.message, hint=error.hint or "")
    except EdgepackError as error:
        return replace(row, warnings=(f"not known here: {error.message}",))
    row = replace(row, warnings=tuple(aside.story.warnings), recipe=_recipe_of(suited, target))
    made = (each for each in measured(host.target_files[target.name].file) if _alike(suited, each, target))
    found = next(made, None)
    return row if found is None else _foretold(row, suited, found)


def _recipe_of(suited: Suited, target: Target) -> str:
    recipe = (target.model.for_scores() if suited.source.ranks else target.model).recipe
    return recipe if isinstance(recipe, str) else ""


LEAST = 2_000_000
"""Bytes that any program has resident."""


def _alike(suited: Suited, made: Made, target: Target) -> bool:
    """Whether what was measured says anything of this model: a table beside a table, made by the same recipe."""
    tables = target.model.format == "table"
    return is_static_source(suited.source) == tables and made.recipe in (_recipe_of(suited, target), "")


def _foretold(row: Suitability, suited: Suited, made: Made) -> Suitability:
    """With archive and memory, from what weights and tokenizer of another model came to by the same recipe."""
    if suited.expected is None or WEIGHTS not in made.parts:
        return row
    weights, tokenizer = made.parts[WEIGHTS], made.parts.get(TOKENIZER, {"raw": 0, "zstd": 0})
    more = suited.expected.made / weights["raw"] - 1
    longer = suited.source.tokenizer.stat().st_size / made.tokenizer_json - 1
    archive = made.archive + more * weights["zstd"] + longer * tokenizer["zstd"]
    memory = None
    if made.memory is not None:
        memory = round(made.memory + more * weights["raw"] + longer * tokenizer["raw"])
    # Of a model that is much smaller than the one that was measured this says nothing: not all weights are resident.
    return replace(row, archive=round(archive), memory=memory if memory and memory > LEAST else None)
