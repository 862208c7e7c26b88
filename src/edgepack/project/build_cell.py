"""One cell: found up to date, taken from the shared store, or made."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import edgepack
from edgepack import pipeline
from edgepack.building.outcome import Outcome
from edgepack.bundles.components import model_component
from edgepack.bundles.manifest import bundle_name
from edgepack.bundles.model_section import source_section
from edgepack.bundles.packages import AXIS as PACKAGE
from edgepack.bundles.packages import packagers_of
from edgepack.console import Story
from edgepack.errors import EdgepackError, OutputError, UsageError
from edgepack.files.shared import SharedStore
from edgepack.files.store import digest_of_code, sha256_of
from edgepack.foundry.toolchains.choose import compiled_otherwise
from edgepack.models.export.source_key import source_key
from edgepack.models.find.source import ingest
from edgepack.plugins.checks import AXIS as CHECKS
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.entry_points import OURS
from edgepack.plugins.host import plugins_of_process
from edgepack.project.jobs import Job, Result, State, failed
from edgepack.project.matrix import Cell
from edgepack.project.remote_results import KIND, offer, take
from edgepack.project.state_file import (
    forget_signing,
    is_ours,
    is_up_to_date,
    memory_of,
    remember,
    require_replaceable,
)
from edgepack.project.stores import open_shared
from edgepack.recipes.prepare import texts_of
from edgepack.recipes.registry import key_of_passes, passes_for
from edgepack.records.model import ModelSource
from edgepack.records.target import Target
from edgepack.reports.cost import AXIS as PRICES
from edgepack.reports.sections import AXIS as REPORT
from edgepack.targets import overrides_of, with_reading

OF_ALL = (CHECKS, "platform", PRICES, REPORT)
"""Axes whose plugins are asked at every bundle, whatever its target names."""


def work(order: Job) -> Result:
    """Make a cell in a process of another pool or machine; its warnings are told by whoever asked for it."""
    with host_context(story=Story(quiet=True), offline=order.offline, host=plugins_of_process()) as context:
        return make_cell(order, context=context)


def make_cell(order: Job, *, context: HostContext) -> Result:
    """Whatever goes wrong with a cell is its result."""
    started, told = time.monotonic(), len(context.story.warnings)
    try:
        made = _make(order, context=context)
    except EdgepackError as error:
        made = failed(order, error)
    except Exception as error:
        hint = "this is a bug in edgepack or in a plugin; `edgepack bundle --debug` shows where it happened"
        made = failed(order, EdgepackError(f"unexpected {type(error).__name__}: {error}", hint=hint))
    seconds = time.monotonic() - started
    return replace(made, seconds=seconds, warnings=tuple(context.story.warnings[told:]))


def _make(order: Job, *, context: HostContext) -> Result:
    if order.edition != (ours := edition(context)):
        raise UsageError(
            f"the worker has edgepack {ours}, and {order.edition} asks it",
            hint="install one edition everywhere, in one way",
        )
    cell = order.cell
    shared = None if order.store is None else open_shared(order.store, context=context)
    # What is signed comes from nobody's hands but ours and theirs who know the secret.
    taken = shared if shared is not None and (shared.secret or not order.signed) else None
    context = replace(context, store=replace(context.store, shared=taken))
    context.story.plan(0)
    with context.story.step("inputs"):
        target = target_of(cell, context)
        source = ingest(cell.wanted.model, reading=target.model.reading, context=context)
        output = Path(cell.wanted.output)
        place = output / bundle_name(source.name, target.name)
        if order.claims is None:
            output = context.work_dir / "made"
        else:
            _claim(place, order)
        packagers = packagers_of(target, context)
        key = key_of_cell(source, target, context)
        done = Result(label=cell.label, state="to be made", seconds=0.0, path=place, key=key)
        stays = _stays(place, key, order, context=context) if order.claims is not None else None
        if stays is not None:
            done = replace(done, state=stays)
        elif not order.force and taken is not None and taken.has(KIND, key):
            done = replace(done, state="in the store")
        context.note(done.state)
        may_replace = partial(require_replaceable, place, force=order.force or order.claims is None)
        if stays is None:
            may_replace()
    if order.dry_run or stays is not None:
        return done
    if done.state == "in the store" and (
        order.claims is None
        or take(
            place, key, packagers=packagers, shared=_there(taken), may_replace=may_replace, context=context
        )
    ):
        return replace(done, state="from the store")
    outcome = pipeline.build(
        target,
        model=cell.wanted.model,
        output=output,
        force=True,
        may_replace=may_replace,
        context=context,
    )
    _require_made_of(outcome, key, source, target, context)
    memory = memory_of(key, outcome)
    remember(outcome.bundle.directory, memory, ours=True, store=context.store)
    kept = shared is not None and offer(outcome.bundle.directory, memory, shared=shared, context=context)
    if order.claims is None and not kept:
        raise OutputError(
            f"the store {_there(shared).url} does not take the bundle that a worker made",
            hint="the workers must be able to write to it",
        )
    return replace(done, state="made", report=outcome.report)


def _require_made_of(
    outcome: Outcome, key: str, source: ModelSource, target: Target, context: HostContext
) -> None:
    """Raise ``OutputError`` where the model, or a file that the target names, was another when the bundle was made than when its key was."""
    read = outcome.bundle.manifest["model"]["source_files"]
    if read != source_section(source)["source_files"] or key_of_cell(source, target, context) != key:
        raise OutputError(
            f"the model or a file of target {target.name} was changed while {outcome.bundle.name} was made",
            hint="the bundle is of what was read last; build it again when nothing writes to them any more",
        )


def settle(result: Result, order: Job, *, context: HostContext) -> Result:
    """Bring the bundle that a worker with another disk made, or found in the store, to its place.

    Raises ``UsageError`` where another cell has it, ``OutputError`` where the store has lost the bundle.
    """
    if result.path is None or result.state == "failed":
        return result
    _claim(result.path, order)
    if (stays := _stays(result.path, result.key, order, context=context)) is not None:
        return replace(result, state=stays)
    may_replace = partial(require_replaceable, result.path, force=order.force)
    may_replace()
    shared = open_shared(str(order.store), context=context)
    packagers = packagers_of(target_of(order.cell, context), context)
    made = result.state == "made"
    if not take(
        result.path,
        result.key,
        packagers=packagers,
        shared=shared,
        just_made=made,
        may_replace=may_replace,
        context=context,
    ):
        raise OutputError(
            f"the store {shared.url} does not give back what a worker put there",
            hint="build it again; where that does not help, the store is not the same for all",
        )
    return result


def _stays(place: Path, key: str, order: Job, *, context: HostContext) -> State | None:
    """State as which a bundle may stay, ``None`` where it may not: what is to be signed is known to be ours."""
    if order.force or not is_up_to_date(place, key, context.plugins()):
        return None
    if is_ours(place, store=context.store):
        forget_signing(place, store=context.store)
        return "up to date"
    return None if order.signed else "said to be up to date"


def _there(shared: SharedStore | None) -> SharedStore:
    assert shared is not None
    return shared


def _claim(place: Path, order: Job) -> None:
    """Two cells of a build that are made at one place are one too many. A cell that is made again has its claim already."""
    assert order.claims is not None
    # One folder has many names.
    found = str(place.parent.resolve() / place.name)
    claim = Path(order.claims) / hashlib.sha256(found.encode()).hexdigest()
    mine = f"{order.number} {order.cell.label}"
    try:
        claim.symlink_to(mine)
    except FileExistsError:
        if str(claim.readlink()) != mine:
            raise UsageError(
                f"{order.cell.label} is made at {place}, as {str(claim.readlink()).partition(' ')[2]} is",
                hint="give one of them another `output`",
            ) from None


def target_of(cell: Cell, context: HostContext) -> Target:
    wanted = cell.wanted
    overrides = overrides_of(
        wanted.settings, recipe=wanted.recipe, gate=wanted.gate, packages=wanted.packages
    )
    target = with_reading(context.plugins().target(cell.target, overrides), wanted.reading)
    if target.options.get("require_signature"):
        # It runs with its signature alone, and workers do not have the key.
        raise UsageError(
            f"target {target.name} has require_signature, and a project's bundles are signed when all are made",
            hint=f"edgepack bundle --target {target.name} --sign KEY makes this one",
        )
    return target


def key_of_cell(source: ModelSource, target: Target, context: HostContext) -> str:
    """A digest of all that decides what a bundle is: the model's content, the target, and whose code makes it."""
    passes = passes_for(source, target.model, context)
    # The same model at another place is the same.
    text = model_component(replace(source, origin="")).text
    shown = {key: value for key, value in source_section(source).items() if key != "origin"}
    said: dict[str, Any] = {
        "model": source_key(source),
        "shown": {**shown, "text": hashlib.sha256(text).hexdigest()},
        "prompts": dict(source.prompts),
        "target": asdict(replace(target, origin="")),
        "passes": key_of_passes(passes, context),
        "texts": texts_of(passes),
        "calibration": sha256_of(texts) if (texts := target.model.calibration) and texts.is_file() else "",
        "module": sha256_of(module) if (module := target.module) and module.is_file() else "",
        "named": _files_of({**target.options, **target.extra}),
        "packages": {name: context.extensions(PACKAGE)[name].identity for name in target.packages},
        "asked of all": [found.identity for axis in OF_ALL for found in context.extensions(axis).values()],
        "edgepack": edition(context),
        "made_by": context.plugins().builder_of(target).made_by(target),
        **compiled_otherwise(target.platform, context=context),
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def edition(context: HostContext) -> str:
    """The version of edgepack, and a digest of all code of it and of its own plugins: between two releases there are many."""
    packages = {each.package for each in context.plugins().plugins if each.distribution == OURS}
    return f"{edgepack.__version__} ({digest_of_code(*sorted(packages))[:12]})"


def _files_of(said: object) -> list[str]:
    """The digests of files that options and settings of plugins name, such as a wheel."""
    if isinstance(said, Mapping):
        return [each for key in sorted(said) for each in _files_of(said[key])]
    if isinstance(said, list | tuple):
        return [each for value in said for each in _files_of(value)]
    try:
        return [sha256_of(Path(said))] if isinstance(said, str) and Path(said).is_file() else []
    except (OSError, ValueError):  # words that no file can be called
        return []
