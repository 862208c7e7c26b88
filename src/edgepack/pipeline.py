"""The whole flow of a build, one line a step."""

from pathlib import Path

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
from edgepack.plugins.context import HostContext
from edgepack.records.target import Target
from edgepack.signing.keys import PrivateKey
from edgepack.verifier.run import BundleRunner

__all__ = ["Outcome", "build"]

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
    context: HostContext,
) -> Outcome:
    """Make, verify and measure one bundle; it appears in ``output`` when all of that went well, or not at all.

    With ``key`` it is signed, and so are its archive and packages, which hold the bundle's signature.
    """
    context.story.plan(STEPS)
    order = place_order(
        target,
        model=model,
        output=output,
        force=force,
        bench=bench,
        prices=prices,
        key=key,
        context=context,
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
            verified = judge(order, bundle, source, proofs, run)
        with step("pack"):
            outcome = pack_up(order, parts, verified, destination, beside)
    hand_over(outcome, key, context)
    return outcome
