"""The room of another release, drafted: its sources are read, the room is written, and a first build is tried."""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bin.draft_release.markdown import upgrade_page
from bin.draft_release.survey import Survey, survey
from bin.draft_release.tree import Tree, bring
from bin.draft_release.write import pack_tree, write_room

from edgepack.bundles.place import placed_folder, require_free, require_writable
from edgepack.context import BuildContext
from edgepack.errors import FloorError, MismatchError, ProofError, ToolError, UnsupportedModelError
from edgepack.files.store import written_beside
from edgepack.foundry.platform import RuntimePlatform
from edgepack.foundry.release import Release
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.releases.release_folder import read_room
from edgepack.foundry.sources.pinned import Archive, store_path
from edgepack.foundry.sources.tree import source_tree
from edgepack.models.find.source import ingest
from edgepack.operators.config import required
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.runtimes.standalone import LibraryOptions

PAGE, DATA = "UPGRADE.md", "draft.json"
_OF_THE_SOURCES = (FloorError, MismatchError, ProofError, ToolError, UnsupportedModelError)


@dataclass(frozen=True, kw_only=True)
class FirstBuild:
    """What the first build came to."""

    ran: bool
    """Whether a library was made, and ran a model."""
    said: str
    """In a sentence."""
    library: str = ""
    bytes: int = 0
    seconds: float = 0
    min_cosine: float = 0
    """To the vectors of the stock library that is installed, at the CPU level where it was lowest."""


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """A drafted room."""

    folder: Path
    survey: Survey
    build: FirstBuild

    def as_json(self) -> dict[str, Any]:
        found = self.survey
        return {
            "room": str(self.folder),
            **asdict(found),
            "left_out": sorted(found.left_out),
            "used": list(found.used),
            "first_build": asdict(self.build),
        }


def draft(
    sources: Path,
    *,
    model: str | None,
    options: LibraryOptions,
    platform: RuntimePlatform,
    build: bool,
    output: Path,
    release: Release = RELEASE,
    context: HostContext,
) -> Drafted:
    """Write the room of the sources' release into a new folder, and try to build a library with it that runs a model.

    ``release`` is the one whose room is tried; its own sources are fetched for comparison. A build that fails is part of the result.
    Raises ``UsageError`` for what is no source tree of another release, ``OutputError`` when ``output`` exists.
    """
    require_free(output, force=False)
    require_writable(output.parent)
    story = context.story
    with story.step("sources"):
        skip = release.catalogue.parts["onnxruntime"].skip
        new = bring(sources, skip=skip, work_dir=context.work_dir)
        known = source_tree(release.catalogue, context=context)
        found = survey(release, Tree(folder=known.onnxruntime, skip=skip), new)
    with story.step("room"), placed_folder(output, force=False) as folder:
        file, archive = pack_tree(new, found.version, context.work_dir)
        _keep(file, archive, context)
        write_room(found, release, archive, folder)
        _write_report(Drafted(folder=output, survey=found, build=_not_tried(found, asked=build)), folder)
    tried = _not_tried(found, asked=build)
    if build and not found.in_the_way:
        tried = _first_build(output, model, options=options, platform=platform, context=context)
    made = Drafted(folder=output, survey=found, build=tried)
    _write_report(made, output)
    return made


def _keep(file: Path, archive: Archive, context: BuildContext) -> None:
    """Put the archive of the sources into the store, where builds look for what a room pins."""
    stored = store_path(archive, context)
    if not stored.is_file():
        with written_beside(stored) as beside:
            shutil.copyfile(file, beside)


def _not_tried(found: Survey, *, asked: bool) -> FirstBuild:
    names = ", ".join(place.patch for place in found.in_the_way)
    if names:
        return FirstBuild(ran=False, said=f"not tried: {names} must be mended first")
    return FirstBuild(ran=False, said="not finished" if asked else "not tried (--no-build)")


def _first_build(
    room: Path, model: str | None, *, options: LibraryOptions, platform: RuntimePlatform, context: HostContext
) -> FirstBuild:
    """A library with the patches that none can be made without, and no others.

    What the sources are to blame for is part of the result; a compiler that is not installed is raised.
    """
    started, story = time.monotonic(), context.story
    try:
        runtime_options = replace(options.runtime, release=read_room(room))
        with story.step("model"):
            source = ingest(model, context=context)
        with story.step("prepare"):
            prepared = prepare_model(source, options=options.model, context=context)
        with story.step("runtime"):
            runtime = platform.reduce(required(prepared.needs), runtime_options, context=context)
        with story.step("prove"):
            proofs = platform.prove(prepared, runtime, levels="here", context=context)
    except _OF_THE_SOURCES as error:
        seconds = round(time.monotonic() - started, 1)
        return FirstBuild(ran=False, said=error.message, seconds=seconds)
    return FirstBuild(
        ran=True,
        said=f"a library of {runtime.file.stat().st_size:,} bytes runs {prepared.source.name}",
        library=str(runtime.file),
        bytes=runtime.file.stat().st_size,
        seconds=round(time.monotonic() - started, 1),
        min_cosine=min((proof.min_cosine for proof in proofs if proof.proved), default=0.0),
    )


def _write_report(made: Drafted, folder: Path) -> None:
    page = upgrade_page(made.survey, list(_build_lines(made.build)))
    texts: Mapping[str, str] = {PAGE: page, DATA: json.dumps(made.as_json(), indent=1) + "\n"}
    for name, text in texts.items():
        with written_beside(folder / name) as beside:
            beside.write_text(text, encoding="utf-8")


def _build_lines(build: FirstBuild) -> list[str]:
    """What it came to, for the page."""
    lines = [f"{build.said}."]
    if build.ran:
        lines.append(
            f"Lowest cosine to the vectors of the stock library that is installed: {build.min_cosine:.6f}."
        )
        lines.append("Only the patches that no runtime can be made without were used.")
    return [line for each in lines for line in (each, "")][:-1]
