"""The whole flow of a build, one line a step."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgepack.building.order import find_model, place_order
from edgepack.building.outcome import Outcome, hand_over
from edgepack.building.steps import (
    Parts,
    claimed,
    judge,
    lay_out,
    pack_up,
    prepare,
    prove,
    provide,
    with_module,
)
from edgepack.errors import BudgetError, VerificationError
from edgepack.plugins.context import HostContext
from edgepack.records.target import Reading, Target
from edgepack.signing.keys import PrivateKey
from edgepack.suitability.budget import over_budget, targets_within
from edgepack.suitability.default import target_for
from edgepack.verifier.run import BundleRunner

__all__ = ["Outcome", "build", "build_chosen"]

STEPS = 8
"""Of a build."""


def build(
    target: Target,
    *,
    model: str | None,
    output: Path,
    force: bool = False,
    bench: bool = False,
    prices: Path | None = None,
    key: PrivateKey | None = None,
    may_replace: Callable[[Sequence[Path]], None] = lambda packages: None,
    context: HostContext,
) -> Outcome:
    """Make, verify and measure one bundle; it appears in ``output`` when all of that went well, or not at all.

    With ``key`` it is signed, and so are its archive and packages, which hold the bundle's signature. ``may_replace`` raises for a package
    that lies in the way and is not to be replaced, when its name is known.
    """
    context.story.plan(STEPS)
    order = place_order(
        target, model=model, output=output, force=force, bench=bench, prices=prices, key=key, context=context
    )
    step, by, run = context.story.step, order.registered, BundleRunner(context=context, trusted=True)
    with step("model"):
        source = find_model(order)
    destination = order.destination(source.name)
    with step("prepare"):
        prepared = prepare(order, source)
    with step("runtime"):
        runtime, checks = provide(order, prepared)
    with step("runner"):
        runner = order.builder.make_runner(prepared, runtime)
        source = with_module(order, source, runner)
    parts = Parts(source=source, model=prepared, runtime=runtime, checks=checks, runner=runner)
    with claimed(order, destination) as (folder, beside):
        with step("bundle"), by.to_blame_for_its_parts():
            bundle = lay_out(order, parts, run, folder)
        with step("prove"), by.named():
            proofs = prove(order, bundle, runtime, run)
        with step("verify"), by.named():
            verified = judge(order, bundle, source, prepared, proofs, run)
        with step("pack"):
            outcome = pack_up(order, parts, verified, destination, beside, may_replace)
    hand_over(outcome, key, context)
    return outcome


def build_chosen(
    name: str | None,
    overrides: Sequence[str],
    reading: Reading,
    *,
    model: str | None,
    budget: int | None = None,
    context: HostContext,
    **order: Any,
) -> Outcome:
    """A bundle for the target that the user named or the model chooses; ``order`` is what ``build`` takes besides.

    With a budget, in bytes to download, by the recipe nearest to full precision that keeps it. Raises ``BudgetError`` where none does, or
    only one whose vectors are not near enough.
    """
    if budget is None:
        target = target_for(name, model, overrides, reading, context=context)
        return build(target, model=model, context=context, **order)
    missed: BudgetError | None = None
    for target in targets_within(budget, name, model, overrides, reading, context=context):
        if missed:
            context.story.tell(f"budget: {missed.message}; now with recipe {target.model.recipe}")
        try:
            return build(target, model=model, context=context, **order)
        except BudgetError as error:
            if not error.download:
                raise
            missed = error
        except VerificationError as error:
            if missed is None:
                raise
            raise over_budget(missed, f"; with recipe {target.model.recipe}, {error.message}") from error
    assert missed is not None
    raise over_budget(missed, ", by the smallest recipe that --budget tries")
