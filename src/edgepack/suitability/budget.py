"""The recipes nearest to full precision first, for a bundle that has to be within a budget of bytes to download."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgepack.console import Story
from edgepack.errors import BudgetError, EdgepackError, UsageError
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.records.ladder import LADDER
from edgepack.records.model import ModelSource
from edgepack.records.target import Reading, Target
from edgepack.reports.budget import enough, foretell_from_weights
from edgepack.suitability.decide import REFUSALS, require_suitable
from edgepack.suitability.default import candidates
from edgepack.targets import with_reading


def targets_within(
    budget: int,
    name: str | None,
    model: str | None,
    overrides: Sequence[str],
    reading: Reading,
    *,
    context: HostContext,
) -> Iterator[Target]:
    """Targets with this budget, by recipes of ``LADDER`` that take the model and are not foretold to be too large.

    Where no target is named, each recipe is for the first of this machine's that takes it. Raises ``UsageError`` where the settings have a
    recipe, ``BudgetError`` where all are too large, what the first refused the model with where none takes it, and what is raised where
    the model cannot be had.
    """
    if any(each.startswith("model.recipe=") for each in overrides):
        raise UsageError(
            "--budget chooses the recipe, which is given here",
            hint="leave out the recipe; edgepack search compares all of them",
        )
    aside = replace(context, story=Story(quiet=True))
    source: ModelSource | None = None
    large: BudgetError | None = None
    refused: EdgepackError | None = None
    fits = False
    for recipe in LADDER:
        settings = (
            *overrides,
            f"model.recipe={json.dumps(recipe)}",
            f"budget.download={json.dumps(f'{budget} B')}",
        )
        for target in _possible(name, settings, reading, aside):
            if source is None:
                with context.story.step("model"):
                    source = ingest(model, reading=target.model.reading, context=context)
            try:
                # Of what it cannot compute, nobody has to know that it is too large.
                suited = require_suitable(
                    source,
                    replace(target, download_budget=None),
                    aside.plugins().create(target, aside),
                    context=aside,
                )
                foretell_from_weights(target, suited.expected)
            except BudgetError as error:
                large = error
            except REFUSALS as error:
                refused = refused or error
            else:
                fits = True
                yield target
                break
    if fits:
        return
    if large is not None:
        raise over_budget(large, ", by the smallest recipe that --budget tries")
    assert refused is not None
    raise type(refused)(
        f"no recipe that --budget tries will do: {refused.message}",
        hint="leave out --budget; `edgepack inspect` says which target and recipe take the model",
    )


def over_budget(missed: BudgetError, said: str) -> BudgetError:
    """With what else there is to say, and the budget that would do."""
    return BudgetError(missed.message + said, hint=f'--budget "{enough(missed.download)}"')


def _possible(
    name: str | None, settings: Sequence[str], reading: Reading, context: HostContext
) -> Iterator[Target]:
    if name is not None:
        yield with_reading(context.plugins().target(name, settings), reading)
        return
    yield from (each.target for each in candidates(settings, reading, context=context))
