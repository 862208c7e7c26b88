"""A row for each target: whether it takes a model, with which recipe, and what comes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.models.read.static import is_static_source
from edgepack.plugins.context import HostContext
from edgepack.recipes.expected import Expected, expected
from edgepack.recipes.registry import passes_of
from edgepack.records.model import ModelSource
from edgepack.records.suitability import Choice, Suitability
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
    known = measured(host.target_files[target.name].file)
    found = next((each for each in known if _alike(suited, each, target)), None)
    return row if found is None else _foretold(_with_choices(row, suited, known, aside), suited, found)


def _with_choices(
    row: Suitability, suited: Suited, known: Sequence[Made], context: HostContext
) -> Suitability:
    """With the recipes that bundles for the target were made by, and what each would make of this model."""
    choices = []
    for made in known:
        foretold = expected(suited.source, passes_of(made.recipe, context)) if made.recipe else None
        if foretold is not None and WEIGHTS in made.parts:
            size = _scaled(made.download, made, suited, foretold, "zstd")
            choices.append(
                Choice(
                    recipe=made.recipe,
                    archive=size,
                    mean_cosine=made.mean_cosine,
                    min_cosine=made.min_cosine,
                )
            )
    choices.sort(key=lambda each: each.archive)
    return replace(row, choices=tuple(choices), measured_with=known[0].model.rpartition("/")[2])


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
    memory = None
    if made.memory is not None:
        memory = _scaled(made.memory, made, suited, suited.expected, "raw")
    # Of a model that is much smaller than the one that was measured this says nothing: not all weights are resident.
    return replace(
        row,
        archive=_scaled(made.download, made, suited, suited.expected, "zstd"),
        memory=memory if memory and memory > LEAST else None,
    )


def _scaled(size: int, made: Made, suited: Suited, foretold: Expected, kind: str) -> int:
    """A size of what was measured with the weights and the tokenizer of this model in the place of that one's."""
    weights, tokenizer = made.parts[WEIGHTS], made.parts.get(TOKENIZER, {"raw": 0, "zstd": 0})
    more = foretold.made / weights["raw"] - 1
    longer = suited.source.tokenizer.stat().st_size / made.tokenizer_json - 1
    # A page is sent under brotli, of which the parts' sizes are not kept.
    share = size / sum(part[kind] for part in made.parts.values()) if made.first_visit else 1.0
    return round(size + share * (more * weights[kind] + longer * tokenizer[kind]))
