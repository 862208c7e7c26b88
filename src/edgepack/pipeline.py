"""The whole flow of a build, one line a step."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.errors import BudgetError
from edgepack.files.store import written_beside
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import PluginHost
from edgepack.records.bundle import Bundle
from edgepack.records.report import Report, Verification
from edgepack.records.runtime import LevelProof
from edgepack.records.target import Target


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a build made."""

    bundle: Bundle
    report: Report
    report_file: Path


def build(
    target: Target,
    *,
    model: str | None,
    output: Path,
    force: bool = False,
    prices: Path | None = None,
    host: PluginHost,
    context: HostContext,
) -> Outcome:
    """Make, verify and measure one bundle; it appears in ``output`` when all of that went well, or not at all."""
    from edgepack.bundle.assemble import assemble
    from edgepack.bundle.manifest import bundle_name
    from edgepack.bundle.place import placed_folder, require_free
    from edgepack.models.find.source import ingest
    from edgepack.operators.config import require_match
    from edgepack.verify.gate import verify

    story = context.story
    builder = host.create(target, context)
    with story.step("model"):
        source = ingest(model, context=context)
    destination = output / bundle_name(source, target)
    require_free(destination, force=force)
    with story.step("prepare"):
        prepared = builder.prepare_model(source)
    with story.step("runtime"):
        runtime = builder.provide_runtime(prepared)
        require_match(prepared.needs, runtime.provides)
    with story.step("runner"):
        runner = builder.freeze_runner(prepared, runtime)
    with placed_folder(destination, force=force) as folder:
        with story.step("bundle"):
            bundle = assemble(
                target=target, model=prepared, runtime=runtime, runner=runner, folder=folder, context=context
            )
        with story.step("verify"):
            verification = verify(
                bundle,
                source,
                builder.embed,
                options=target.model,
                proofs=runtime.proofs,
                context=context,
            )
        with story.step("pack"):
            outcome = _pack_and_report(
                bundle, verification, runtime.proofs, destination, target, prices, context
            )
    host.bundle_written(outcome.bundle, outcome.report)
    return outcome


def report_file_of(directory: Path) -> Path:
    """Where a bundle's report lies: beside the bundle, so that it is no part of what devices get."""
    return directory.with_name(directory.name + ".report.json")


def _require_budget(target: Target, report: Report) -> None:
    size = report.download_bytes
    if target.download_budget is not None and size is not None and size > target.download_budget:
        what = "a first visit downloads" if report.visits else "the archive has"
        raise BudgetError(
            f"{what} {size / 1e6:.1f} MB, target {target.name} allows {target.download_budget / 1e6:.1f} MB",
            hint='a smaller recipe, or --set budget.download="50 MB"',
        )


def _pack_and_report(
    bundle: Bundle,
    verification: Verification,
    proofs: tuple[LevelProof, ...],
    destination: Path,
    target: Target,
    prices: Path | None,
    context: HostContext,
) -> Outcome:
    """Archive and report, put in their places just before the folder is: where that is, everything is."""
    from edgepack.bundle.archive import archive_of, pack
    from edgepack.report.measure import measure
    from edgepack.report.text import as_json

    with written_beside(archive_of(destination)) as archive:
        packed = pack(bundle, archive, context=context)
        report = replace(measure(packed, verification, prices=prices, context=context), proofs=proofs)
        _require_budget(target, report)
    report_file = report_file_of(destination)
    with written_beside(report_file) as temporary:
        temporary.write_text(json.dumps(as_json(report), indent=2) + "\n", encoding="utf-8")
    context.note(f"{destination}/ and .tar.zst")
    return Outcome(
        bundle=replace(packed, directory=destination, archive=archive_of(destination)),
        report=report,
        report_file=report_file,
    )
