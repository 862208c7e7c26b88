"""The whole flow of a build, one line a step."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from edgepack.errors import BudgetError, OutputError
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import PluginHost
from edgepack.records import Bundle, ModelSource, Report, Target
from edgepack.store import disk_errors

STAGING_PREFIX = ".edgepack-"
STAGING_LOCK = ".lock"


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
    from edgepack.bundle.archive import pack
    from edgepack.bundle.assemble import assemble
    from edgepack.bundle.verify import verify
    from edgepack.foundry.operators import require_match
    from edgepack.models.source import ingest
    from edgepack.report.measure import measure

    story = context.story
    builder = host.create(target, context)
    with story.step("model"):
        source = ingest(model, context=context)
    destination = output / bundle_name(source, target)
    _require_free(destination, force=force)
    with story.step("prepare"):
        prepared = builder.prepare_model(source)
    with story.step("runtime"):
        runtime = builder.provide_runtime(prepared)
        require_match(prepared.needs, runtime.provides)
    with story.step("runner"):
        runner = builder.freeze_runner(prepared, runtime)
    with _staging(output) as staging:
        with story.step("bundle"):
            bundle = assemble(
                target=target,
                model=prepared,
                runtime=runtime,
                runner=runner,
                destination=staging / destination.name,
                force=False,
                context=context,
            )
            bundle = pack(bundle)
            context.note(f"{destination}/ and .tar.zst")
        with story.step("verify"):
            verification = verify(bundle, source, builder.embed, options=target.model, context=context)
        with story.step("measure"):
            report = measure(bundle, verification, prices=prices)
        _require_budget(target, bundle)
        outcome = _publish(bundle, report, destination, force=force)
    host.bundle_written(outcome.bundle, outcome.report)
    return outcome


def bundle_name(source: ModelSource, target: Target) -> str:
    """``MODEL-TARGET``, without the model's organisation."""
    return f"{source.name.rpartition('/')[2]}-{target.name}"


def report_file_of(directory: Path) -> Path:
    """Where a bundle's report lies: beside the bundle, so that it is no part of what devices get."""
    return directory.with_name(directory.name + ".report.json")


def archive_of(directory: Path) -> Path:
    """Where a bundle's archive lies."""
    return directory.with_name(directory.name + ".tar.zst")


def _require_free(destination: Path, *, force: bool) -> None:
    if destination.exists() and not force:
        raise OutputError(
            f"{destination} exists already", hint="--force replaces it, --output names another folder"
        )


def _require_budget(target: Target, bundle: Bundle) -> None:
    if target.download_budget is None or bundle.archive is None:
        return
    size = bundle.archive.stat().st_size
    if size > target.download_budget:
        raise BudgetError(
            f"the archive has {size / 1e6:.1f} MB, target {target.name} allows {target.download_budget / 1e6:.1f} MB",
            hint='a smaller recipe, or --set budget.download="50 MB"',
        )


@contextmanager
def _staging(output: Path) -> Iterator[Path]:
    """A folder on the output's own disk, so that publishing is a rename; gone afterwards."""
    with disk_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        _sweep(output)
        staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=output))
    try:
        with FileLock(staging / STAGING_LOCK):
            yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _sweep(output: Path) -> None:
    """Remove what killed builds left: a running build holds its folder's lock (a build that just starts has none yet)."""
    for folder in output.glob(f"{STAGING_PREFIX}*"):
        if not (folder / STAGING_LOCK).exists():
            continue
        try:
            with FileLock(folder / STAGING_LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
        except Timeout:
            continue


def _publish(bundle: Bundle, report: Report, destination: Path, *, force: bool) -> Outcome:
    """Move folder, archive and report to their places."""
    import json

    from edgepack.report.text import as_json

    assert bundle.archive is not None
    _require_free(destination, force=force)
    staged_report = report_file_of(bundle.directory)
    with disk_errors(destination):
        staged_report.write_text(json.dumps(as_json(report), indent=2) + "\n", encoding="utf-8")
        # The folder comes last: where it is, everything is.
        archive = bundle.archive.replace(archive_of(destination))
        report_file = staged_report.replace(report_file_of(destination))
        if destination.exists():
            destination.rename(bundle.directory.with_name("replaced"))
        bundle.directory.rename(destination)
    return Outcome(
        bundle=replace(bundle, directory=destination, archive=archive), report=report, report_file=report_file
    )
