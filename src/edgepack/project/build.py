"""Makes of a project's bundles those whose inputs changed; one that fails stops no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgepack.building.outcome import report_file_of
from edgepack.bundles.archive import archive_of
from edgepack.bundles.manifest import open_bundle
from edgepack.bundles.provenance import provenance_file
from edgepack.errors import EdgepackError, OutputError, SignatureError, UsageError
from edgepack.files.shared import SECRET
from edgepack.plugins.context import HostContext
from edgepack.project.build_cell import edition, make_cell, settle
from edgepack.project.jobs import Job, Result, failed
from edgepack.project.matrix import Cell
from edgepack.project.state_file import is_ours, packages_beside, require_replaceable, signing
from edgepack.project.stores import open_shared
from edgepack.project.workers import elsewhere, in_processes, starting_safely
from edgepack.recorded.beside import record_beside
from edgepack.records.word import HERE
from edgepack.terminal_text import did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from edgepack.signing.keys import PrivateKey, PublicKey

AXIS = "executor"


@dataclass(frozen=True, kw_only=True)
class Workforce:
    """Who makes a project's bundles, and where they are kept for others."""

    jobs: int | None = None
    """How many at once; ``None``: one."""
    executor: str | None = None
    """A plugin's; ``None``: processes of this machine."""
    scheduler: str | None = None
    """The executor's address."""
    store: str | None = None
    """Address of the shared store."""


def build_cells(
    cells: Sequence[Cell],
    *,
    context: HostContext,
    by: Workforce = Workforce(),
    force: bool = False,
    dry_run: bool = False,
    key: PrivateKey | None = None,
) -> Iterator[tuple[int, Result]]:
    """Each cell's number and result as it is done: made where its inputs changed, its bundle is damaged, or with ``force``.

    With ``key`` bundles are signed when they are at their place, here: no worker and no store sees the key. Raises ``UsageError`` for workers or a store that there are none of.
    """
    _require_sense(by, context)
    if by.store is not None:
        shared = open_shared(by.store, context=context)
        if key is not None and by.executor is not None and not shared.secret:
            raise UsageError(
                "workers elsewhere bring their bundles back through a store that anybody may have written to, and --sign would sign them",
                hint=f"set {SECRET} to the same secret here and for the workers, or sign them one by one when you have verified them",
            )
    claims, ours = context.work_dir / "claims", edition(context)
    claims.mkdir()
    orders = [
        Job(
            cell=cell,
            number=number,
            edition=ours,
            claims=str(claims),
            store=by.store,
            offline=context.offline,
            force=force,
            signed=key is not None,
            dry_run=dry_run,
        )
        for number, cell in enumerate(cells)
    ]
    if dry_run or (by.executor is None and (by.jobs or 1) == 1):
        for order, result in _one_by_one(orders, context=context):
            yield order.number, _signed(result, key, context)
        return
    with context.progress("build", len(orders), unit="bundles") as bar:
        for order, result in _by_others(orders, by, context=context):
            bar.advance()
            result = _signed(result, key, context)
            context.story.tell(_line(result))
            for warning in result.warnings:
                context.warn(f"{result.label}: {warning}")
            yield order.number, result


def _require_sense(by: Workforce, context: HostContext) -> None:
    if by.jobs is not None and by.jobs < 1:
        raise UsageError(
            f"--jobs {by.jobs}: nobody would make anything", hint="--jobs 4 makes four bundles at once"
        )
    if by.executor is None and by.scheduler is not None:
        raise UsageError("--scheduler is an executor's address", hint="--executor dask --scheduler ADDRESS")
    known = context.extensions(AXIS)
    if by.executor is not None and by.executor not in known:
        raise UsageError(
            f"no plugin brings the executor {by.executor}{did_you_mean(by.executor, known)}",
            hint=f"executors: {', '.join(known)}; without one, --jobs N are processes of this machine",
        )
    if by.executor is not None and by.store is None:
        raise UsageError(
            "workers elsewhere bring their bundles back through a store, and none is named",
            hint="--store ADDRESS, EDGEPACK_STORE, or `store` in the project file: a folder that all mount, s3://BUCKET/NAME, …",
        )


def _one_by_one(orders: Sequence[Job], *, context: HostContext) -> Iterator[tuple[Job, Result]]:
    """In this process, with the whole story of each."""
    for order in orders:
        own = replace(context, work_dir=context.work_dir / str(order.number))
        own.work_dir.mkdir()
        context.note("")
        context.note(order.cell.label)
        result = make_cell(order, context=own)
        if result.error is not None:
            context.note(f"failed: {result.error.message}")
        yield order, result


def _signed(result: Result, key: PrivateKey | None, context: HostContext) -> Result:
    """The result with its bundle and what lies beside it signed, unless it is signed with this key already."""
    if key is None or result.path is None or result.state not in ("made", "from the store", "up to date"):
        return result
    from edgepack.signing.signatures import is_signed_file, sign_file, sign_path

    folder = result.path
    try:
        with signing(folder, context=context) as as_made:
            if not (as_made and is_ours(folder, store=context.store)):
                raise OutputError(
                    f"{folder} or what lies beside it is not what this build has found there: another run has replaced it, and it is not signed",
                    hint="build it again",
                )
            # Before the archive is another one.
            others = _beside(folder, context)
            require_replaceable(folder, others, force=_is_signed(folder, key.public))
            if not _is_signed(folder, key.public):
                sign_path(folder, key, force=True, context=context)
            for file in others:
                if not is_signed_file(file, key.public):
                    sign_file(file, key)
    except EdgepackError as error:
        return replace(result, state="failed", error=error)
    return result


def _beside(folder: Path, context: HostContext) -> list[Path]:
    """Packages of a bundle and, where it was written here, its report: what is signed beside it without being changed."""
    record = record_beside(folder, store=context.store)
    reports = [report_file_of(folder)] if record is not None and record.said_by == HERE else []
    return [*packages_beside(folder), *reports]


def _is_signed(folder: Path, key: PublicKey) -> bool:
    """Whether a bundle is signed, and its archive and provenance: who signed it before may have been killed in between."""
    from edgepack.signing.signatures import is_signed_file, require_signed

    beside = [each for each in (archive_of(folder), provenance_file(folder)) if each.is_file()]
    try:
        require_signed(open_bundle(folder), key)
    except SignatureError:
        return False
    return all(is_signed_file(each, key) for each in beside)


def _by_others(orders: Sequence[Job], by: Workforce, *, context: HostContext) -> Iterator[tuple[Job, Result]]:
    if by.executor is None:
        yield from in_processes(orders, jobs=by.jobs or 1)
        return
    there = [replace(order, claims=None) for order in orders]
    with starting_safely(), context.extensions(AXIS)[by.executor].make()(by.scheduler, by.jobs) as executor:
        for order, result in elsewhere(there, executor):
            own = replace(context, work_dir=context.work_dir / str(order.number))
            own.work_dir.mkdir()
            try:
                yield order, settle(result, orders[order.number], context=own)
            except EdgepackError as error:
                yield order, replace(failed(order, error), seconds=result.seconds)


def _line(result: Result) -> str:
    said = f"failed: {result.error.message}" if result.error else result.state
    return f"{result.label}  {said}  {result.seconds:.1f} s"
