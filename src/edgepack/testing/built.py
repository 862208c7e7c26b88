"""Bundles of a small model: made by the command in a process of its own, or in this one with eyes on every step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepack.bundles.manifest import digest, open_bundle
from edgepack.context import BuildContext
from edgepack.errors import UnsupportedModelError
from edgepack.plugins.host import PluginHost, Registered
from edgepack.records.bundle import Bundle
from edgepack.testing.check import NotSeen
from edgepack.verifier.run import BundleRunner

if TYPE_CHECKING:
    from edgepack.testing.kit import TargetSubject

STEPS = ("prepare_model", "provide_runtime", "make_runner")


@dataclass(frozen=True, kw_only=True)
class Built:
    """Result of the command, and where else it wrote."""

    said: str
    """Its last lines on standard error."""
    exit_code: int
    output: Path
    model: Path
    """The folder of the model that it is of."""
    report: Mapping[str, Any] = field(default_factory=dict)
    strays: tuple[str, ...] = ()
    """Files that it left in its home, its temporary folder or its current folder."""

    @property
    def failed(self) -> bool:
        return self.exit_code != 0

    @property
    def directory(self) -> Path:
        return Path(str(self.report["directory"]))

    @property
    def bundle(self) -> Bundle:
        """Its files are as the manifest lists them, or ``BundleError``."""
        return open_bundle(self.directory)

    def digest(self) -> str:
        """Digest of the bundle's files and manifest."""
        return digest(self.bundle)


@cache
def build_in_own_process(subject: TargetSubject) -> Built:
    """Build the first model whose kind the builder does not refuse; where it refuses all, the result is the first's."""
    refused: list[Built] = []
    for model in subject.kit.models_for_targets():
        built = _build_in_own_process(subject, model)
        if built.exit_code != UnsupportedModelError.exit_code:
            return built
        refused.append(built)
    return refused[0]


def _build_in_own_process(subject: TargetSubject, model: Path) -> Built:
    """``edgepack bundle``, offline, with an empty home, temporary folder and current folder."""
    folder = subject.kit.folder / f"built-{subject.name.replace('/', '-')}"
    places = {name: folder / name for name in ("home", "tmp", "cwd")}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    words: list[str | Path] = ["-t", subject.name, "-m", model, "-o", folder / "dist"]
    settings = [word for override in subject.overrides for word in ("--set", override)]
    if subject.kit.fetch:
        subject.kit.edgepack("fetch", *words[:4])
    done = subject.kit.edgepack(
        "bundle",
        *words,
        *settings,
        "--offline",
        "--json",
        env={"HOME": str(places["home"]), "TMPDIR": str(places["tmp"]), "XDG_CACHE_HOME": ""},
        cwd=places["cwd"],
    )
    try:
        report = json.loads(done.stdout) if done.returncode == 0 else {}
    except ValueError:
        report = {"stdout": done.stdout}
    strays = [
        path.relative_to(folder).as_posix()
        for place in places.values()
        for path in place.rglob("*")
        if path.is_file()
    ]
    return Built(
        said=done.stderr.strip(),
        exit_code=done.returncode,
        output=folder / "dist",
        model=model,
        report=report,
        strays=tuple(sorted(strays)),
    )


def running(subject: TargetSubject, texts: list[str], *, bundle: Bundle | None = None) -> list[list[float]]:
    """Vectors of texts as the bundle's command makes them; ``NotSeen`` where this host cannot run it."""
    from edgepack.errors import CannotRunHere

    runner = BundleRunner(context=subject.kit.context(), trusted=True)
    try:
        return runner.embed(bundle or subject.built.bundle, texts)
    except CannotRunHere as cannot:
        raise NotSeen(f"the bundle cannot run here: {cannot.reason}") from cannot


Wrap = Callable[[str, Callable[..., Any]], Callable[..., Any]]
"""From a step's name and method to what is called in its place."""


@dataclass(frozen=True)
class Watched:
    """A builder whose steps are called through something else."""

    builder: Any
    wrap: Wrap

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.builder, name)
        return self.wrap(name, found) if name in STEPS else found


def with_watched_builder(host: PluginHost, name: str, wrap: Wrap) -> PluginHost:
    """A host on which a builder's ``make`` and steps are called through ``wrap``."""
    known = host.registered["builder"][name]

    def make(target: Any, context: BuildContext) -> Watched:
        return Watched(wrap("make", known.spec.make)(target, context), wrap)

    watched: Registered = replace(known, spec=replace(known.spec, make=make))
    return replace(
        host, registered={**host.registered, "builder": {**host.registered["builder"], name: watched}}
    )


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Records of a build in this process, step by step."""

    directory: Path
    records: Mapping[str, Any]


@cache
def build_here(subject: TargetSubject) -> Seen:
    """A second build, in this process; its work folder stays, so that the files of the records can be looked at."""
    records: dict[str, Any] = {}

    def keeping(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            records[name] = method(*arguments)
            return records[name]

        return call

    _ = subject.built
    output = subject.kit.folder / f"built-here-{subject.name.replace('/', '-')}"
    outcome = build_watched(subject, keeping, output)
    return Seen(directory=outcome, records=records)


def build_watched(subject: TargetSubject, wrap: Wrap, output: Path) -> Path:
    """The folder that the pipeline makes with a builder whose steps are wrapped. Raises what the build raises."""
    from edgepack import pipeline

    host = with_watched_builder(subject.kit.host, subject.target.builder, wrap)
    context = replace(subject.kit.context(), plugins=lambda: host)
    made = pipeline.build(subject.target, model=str(subject.model), output=output, context=context)
    return made.bundle.directory


@contextmanager
def changed_copy(subject: TargetSubject, name: str) -> Iterator[Bundle]:
    """A copy of the bundle that may be changed, in a folder of that name."""
    import shutil

    bundle = subject.built.bundle
    folder = subject.kit.folder / name / bundle.directory.name
    shutil.copytree(bundle.directory, folder, symlinks=True)
    try:
        yield replace(bundle, directory=folder)
    finally:
        shutil.rmtree(subject.kit.folder / name, ignore_errors=True)
