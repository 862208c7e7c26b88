"""Checks of what plugins bring beside builders: passes, recipes and packages on the kit's model, and that each is what its axis asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from edgepack.errors import EdgepackError, PluginError
from edgepack.plugins.blame import in_words
from edgepack.testing.check import Broken, NotSeen, check
from edgepack.testing.kit import Kit, PluginSubject

if TYPE_CHECKING:
    from edgepack.context import Extension
    from edgepack.plugins.spec import Spec
    from edgepack.records.bundle import Bundle
    from edgepack.records.model import PreparedModel
    from edgepack.records.target import Pass, Target

HOOKS = "docs/plugins.md#hooks"
METHODS = {"package": ("file_name", "pack"), "source": ("find",)}
"""By axis: what the object has that ``make`` returns."""
VERSION = "1.0.0"
"""Of packages."""
LEAST_COSINE = 0.8
"""Of the kit's model after a pass or a recipe: what comes out is still that model."""
TEXTS = ("a small model", "the river", "What is a vector?", "water, coffee and bread")


@dataclass(frozen=True)
class SpecSubject:
    """One thing that a plugin brings."""

    kit: Kit
    plugin: PluginSubject
    spec: Spec

    @property
    def label(self) -> str:
        return f"{self.spec.axis}-{self.spec.name}"

    @property
    def extension(self) -> Extension:
        return self.kit.host.extensions(self.spec.axis)[self.spec.name]


def _made(subject: SpecSubject) -> Any:
    """Object that ``make`` returns; a packager is made for a target."""
    from edgepack.testing.script import script_target

    if subject.spec.axis != "package":
        return subject.extension.make()
    try:
        return subject.extension.make(replace(script_target(), version=VERSION))
    except PluginError:
        raise
    except EdgepackError as refused:
        raise NotSeen(f"there is no such package of a bundle for Linux: {refused}") from refused


@check("is-what-its-axis-asks", "What `make` returns can be what the axis needs.", section=HOOKS)
def is_what_its_axis_asks(subject: SpecSubject) -> None:
    axis = subject.spec.axis
    made = _made(subject)
    lacking = [name for name in METHODS.get(axis, ()) if not callable(getattr(made, name, None))]
    if lacking:
        raise Broken(f"it has no {', '.join(lacking)}", do=f"see the {axis} in edgepack.api.axes")
    if axis == "pass" and not callable(made):
        raise Broken(f"it is {made!r}", do="let `make` return the function, not what it returns")
    if axis == "recipe" and not (isinstance(made, list) and all("pass" in each for each in made)):
        raise Broken(f"it is {repr(made)[:80]}", do='return [{"pass": NAME, PARAMETER: VALUE, …}, …]')


@check(
    "makes-a-model",
    "On a small model it makes one that runs, and whose vectors are near the original's.",
    section=HOOKS,
)
def makes_a_model(subject: SpecSubject) -> None:
    from edgepack.models.reference import embed_with_onnxruntime, reference_vectors
    from edgepack.verifier.metrics import lowest_cosine

    made = _prepared(subject, "once")
    source, context = subject.kit.source, subject.kit.context()
    try:
        vectors = embed_with_onnxruntime(made.file, made.source, TEXTS)
    except Exception as error:  # ONNX Runtime's own, of no class that is public
        raise Broken(
            f"what it makes does not run: {str(error)[:200]}", do="see what it does to shapes"
        ) from error
    found = lowest_cosine(vectors, reference_vectors(source, TEXTS, context=context))
    if not found >= LEAST_COSINE:  # or not a number
        raise Broken(
            f"its vectors have cosine {found:.3f} to the original's", do="compare the graph before and after"
        )


@check(
    "makes-it-alike",
    "The same model gives the same bytes: what is made is cached by what it is made from.",
    section=HOOKS,
)
def makes_it_alike(subject: SpecSubject) -> None:
    once, again = _prepared(subject, "once"), _prepared(subject, "again")
    if once.file.read_bytes() != again.file.read_bytes():
        raise Broken("two runs made two models", do="seed what is random; sort what comes out of sets")


@check("new-revision-new-model", "With another revision in its Spec the pass runs again.", section=HOOKS)
def new_revision_new_model(subject: SpecSubject) -> None:
    ran: list[str] = []

    def watched(spec: Spec) -> Spec:
        def make() -> Any:
            ran.append(spec.revision)
            return spec.make()

        return replace(spec, make=make)

    for revision in (subject.spec.revision, f"{subject.spec.revision}-changed"):
        _prepared(subject, "revised", change=lambda spec, to=revision: watched(replace(spec, revision=to)))  # type: ignore[misc]
    if ran[-1:] != [f"{subject.spec.revision}-changed"]:
        raise Broken("what was made before was taken", do="report it: the host keeps models by revision")


def _prepared(
    subject: SpecSubject, store: str, *, change: Callable[[Spec], Spec] | None = None
) -> PreparedModel:
    """The kit's model after the pass, alone or on the fused graph, or after the recipe; each name of a store is one of its own."""
    from edgepack.recipes.prepare import prepare_model
    from edgepack.records.target import ModelOptions, Pass

    root = subject.kit.folder / f"{subject.label}-{store}"
    context = subject.kit.context(store=root)
    if change is not None:
        axis = dict(subject.kit.host.registered[subject.spec.axis])
        axis[subject.spec.name] = replace(axis[subject.spec.name], spec=change(subject.spec))
        host = replace(subject.kit.host, registered={**subject.kit.host.registered, subject.spec.axis: axis})
        context = replace(context, plugins=lambda: host)
    name = subject.spec.name
    own = Pass(name=name)
    tries: list[str | tuple[Pass, ...]] = [name]
    if subject.spec.axis == "pass":
        tries = [(own,), (Pass(name="fuse"), own)]
    subject.kit.folder.mkdir(parents=True, exist_ok=True)
    texts = subject.kit.folder / "texts.txt"
    texts.write_text("\n".join(TEXTS), encoding="utf-8")
    failed: Exception | None = None
    for recipe in tries:
        try:
            options = ModelOptions(recipe=recipe, format="onnx", calibration=texts)
            return prepare_model(subject.kit.source, options=options, context=context)
        except Exception as error:
            failed = error
    raise Broken(in_words(failed or EdgepackError("it was not run")), do="mend it") from failed


@check(
    "holds-the-bundle",
    "The package is one file that holds the very bundle; edgepack opens it.",
    section=HOOKS,
)
def holds_the_bundle(subject: SpecSubject) -> None:
    name = _packed(subject, "once").name
    if name != Path(name).name or " " in name:
        raise Broken(f"it is called {name!r}", do="a file's name, without folders and spaces")


@check("packs-alike", "The same bundle and version give the same bytes.", section=HOOKS)
def packs_alike(subject: SpecSubject) -> None:
    once, again = _packed(subject, "once"), _packed(subject, "again")
    if once.read_bytes() != again.read_bytes():
        raise Broken("two packages of one bundle differ", do="set every entry's time, owner and order")


@cache
def _packed(subject: SpecSubject, turn: str) -> Path:
    """The package of the target's bundle where the session has one, else of a bundle of the kit's own."""
    import time

    from edgepack.bundles.packages import make_packages, packagers_of

    subject.kit.folder.mkdir(parents=True, exist_ok=True)
    context = replace(subject.kit.context(), work_dir=Path(mkdtemp(dir=subject.kit.folder)))
    if turn == "again":
        time.sleep(2.1 - time.time() % 2)  # archives know times by two seconds
    refused: list[str] = []
    for target, bundle in _bundles(subject.kit):
        try:
            packagers = packagers_of(replace(target, packages=(subject.spec.name,), version=VERSION), context)
            (made,) = make_packages(bundle, packagers, context=context)
            return made.file
        except PluginError as error:
            raise Broken(
                error.message, do="write the bundle's files as they are, below one folder"
            ) from error
        except EdgepackError as error:
            refused.append(f"{bundle.name}: {error.message}")
    raise NotSeen(
        f"it packs none of the bundles here ({'; '.join(refused)}); name a target, too: --edgepack-target"
    )


def _bundles(kit: Kit) -> Iterator[tuple[Target, Bundle]]:
    """Bundles of the targets that are checked, and one of the kit's own."""
    from edgepack.testing.kit import TargetSubject
    from edgepack.testing.script import script_bundle, script_target

    for name in kit.targets:
        subject = TargetSubject(kit, name)
        yield subject.target, subject.built.bundle
    yield script_target(), script_bundle(kit)


EVERY = (is_what_its_axis_asks,)
BY_AXIS = {
    "pass": (*EVERY, makes_a_model, makes_it_alike, new_revision_new_model),
    "recipe": (*EVERY, makes_a_model, makes_it_alike),
    "package": (*EVERY, holds_the_bundle, packs_alike),
}
