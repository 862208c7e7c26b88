"""Makes of a project's bundles those whose inputs changed; one that fails stops no other."""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import edgepack
from edgepack import pipeline
from edgepack.bundles.archive import archive_of
from edgepack.bundles.manifest import bundle_name, digest, open_bundle
from edgepack.bundles.packages import AXIS as PACKAGE
from edgepack.bundles.packages import packagers_of
from edgepack.bundles.place import held_place
from edgepack.errors import BundleError, EdgepackError, UsageError
from edgepack.files.store import sha256_of, written_beside
from edgepack.models.find.catalogue import load_catalogue
from edgepack.models.find.source import ingest
from edgepack.models.read.source_key import source_key
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import PluginHost
from edgepack.project.file import Project, Wanted
from edgepack.recipes.registry import key_of_passes, passes_of
from edgepack.records.model import ModelSource
from edgepack.records.report import Report
from edgepack.records.target import Target
from edgepack.targets import with_reading
from edgepack.words import did_you_mean

REMEMBERED = ".edgepack-build.json"
"""In an output folder: bundle → what it was made of, and its digest."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model for one target."""

    wanted: Wanted
    target: str

    @property
    def label(self) -> str:
        """For people, and for the command line: ``MODEL:TARGET``."""
        model = self.wanted.model or load_catalogue().default
        return f"{Path(model).name}:{Path(self.target).name.removesuffix('.toml')}"

    @property
    def names(self) -> tuple[str, ...]:
        """What it is called on the command line: by its label, its model or its target."""
        return (self.label, *self.label.split(":"))


@dataclass(frozen=True, kw_only=True)
class Result:
    """Outcome for one bundle of a project."""

    label: str
    state: Literal["made", "up to date", "to be made", "failed"]
    seconds: float
    path: Path | None = None
    report: Report | None = None
    error: EdgepackError | None = None


def cells_of(project: Project, only: Sequence[str] = ()) -> list[Cell]:
    """All cells, or those whose label, model or target is in ``only``; raises ``UsageError`` for what names none."""
    cells = [Cell(wanted=wanted, target=name) for wanted in project.bundles for name in wanted.targets]
    if not only:
        return cells
    names = {name: cell for cell in cells for name in cell.names}
    for name in only:
        if name not in names:
            raise UsageError(
                f"{project.file} makes no {name}{did_you_mean(name, names)}",
                hint=f"it makes: {', '.join(cell.label for cell in cells)}",
            )
    return [cell for cell in cells if set(cell.names) & set(only)]


def build_cells(
    cells: Sequence[Cell],
    *,
    host: PluginHost,
    context: HostContext,
    force: bool = False,
    dry_run: bool = False,
) -> Iterator[Result]:
    """Each cell in turn, made where its inputs changed, its bundle is damaged, or with ``force``."""
    taken: dict[Path, str] = {}
    for number, cell in enumerate(cells):
        started = time.monotonic()
        own = replace(context, work_dir=context.work_dir / str(number))
        own.work_dir.mkdir()
        context.note(f"\n{cell.label}")
        try:
            made = _build(cell, taken, host=host, context=own, force=force, dry_run=dry_run)
        except EdgepackError as error:
            made = Result(label=cell.label, state="failed", seconds=0.0, error=error)
            context.note(f"failed: {error.message}")
        yield replace(made, seconds=time.monotonic() - started)


def _build(
    cell: Cell, taken: dict[Path, str], *, host: PluginHost, context: HostContext, force: bool, dry_run: bool
) -> Result:
    """``taken``: whose the folders are that were made, or found up to date, before."""
    context.story.plan(0)
    with context.story.step("inputs"):
        target = _target(cell, host)
        source = ingest(cell.wanted.model, reading=target.model.reading, context=context)
        output = Path(cell.wanted.output)
        folder = output / bundle_name(source.name, target)
        if folder in taken:
            raise UsageError(
                f"{cell.label} is made at {folder}, as {taken[folder]} is",
                hint="give one of them another `output`",
            )
        taken[folder] = cell.label
        packagers_of(target, context)
        key = _key(source, target, host, context)
        fresh = not force and _is_up_to_date(folder, key, host)
        context.note("up to date" if fresh else "to be made")
    done = Result(label=cell.label, state="up to date" if fresh else "to be made", seconds=0.0, path=folder)
    if fresh or dry_run:
        return done
    outcome = pipeline.build(
        target, model=cell.wanted.model, output=output, force=True, host=host, context=context
    )
    _remember(folder, key, outcome)
    return replace(done, state="made", report=outcome.report)


def _target(cell: Cell, host: PluginHost) -> Target:
    wanted = cell.wanted
    said = {
        **wanted.settings,
        "model.recipe": wanted.recipe,
        "model.gate": wanted.gate,
        "package.formats": list(wanted.packages) or None,
    }
    overrides = [f"{key}={json.dumps(value)}" for key, value in said.items() if value is not None]
    return with_reading(host.target(cell.target, overrides), wanted.reading)


def _key(source: ModelSource, target: Target, host: PluginHost, context: HostContext) -> str:
    """A digest of all that decides what a bundle is: the model's content, the target, and whose code makes it."""
    said: dict[str, Any] = {
        "model": source_key(source),
        "prompts": dict(source.prompts),
        "target": asdict(replace(target, origin="")),
        "passes": key_of_passes(passes_of(target.model.recipe, context), context),
        "calibration": sha256_of(texts) if (texts := target.model.calibration) and texts.is_file() else "",
        "packages": {name: context.extensions(PACKAGE)[name].identity for name in target.packages},
        "edgepack": edgepack.__version__,
        "made_by": host.builder_of(target).made_by(target),
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _is_up_to_date(folder: Path, key: str, host: PluginHost) -> bool:
    known = _remembered(folder.parent).get(folder.name)
    if known is None or known["key"] != key:
        return False
    # Whom a builder delegates to is known when it has: of these the versions are looked at again.
    if any(_made_by(host, each["builder"]) != each for each in known["delegates"]):
        return False
    if not all((folder.parent / name).is_file() for name in known["files"]):
        return False
    try:
        return bool(digest(open_bundle(folder)) == known["digest"])
    except BundleError:
        return False


def _made_by(host: PluginHost, builder: str) -> dict[str, str]:
    """As a manifest names a delegate; nothing for one that is not there any more."""
    found = host.builders.get(builder)
    return {"builder": builder, "plugin": found.distribution, "version": found.version} if found else {}


def _remember(folder: Path, key: str, outcome: pipeline.Outcome) -> None:
    made = {
        "key": key,
        "digest": outcome.report.digest,
        "files": [archive_of(folder).name, *(each.file for each in outcome.report.packages)],
        "delegates": outcome.bundle.manifest["made_by"].get("delegates", []),
    }
    file = folder.parent / REMEMBERED
    with held_place(file, waiting=lambda: None), written_beside(file) as temporary:
        known = {**_remembered(folder.parent), folder.name: made}
        temporary.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _remembered(output: Path) -> dict[str, Any]:
    """Nothing where the file is not there or damaged: everything is made again then."""
    with suppress(OSError, ValueError):
        known = json.loads((output / REMEMBERED).read_text(encoding="utf-8"))
        if isinstance(known, dict) and all(
            isinstance(each, dict) and {"key", "digest", "files", "delegates"} <= each.keys()
            for each in known.values()
        ):
            return known
    return {}
