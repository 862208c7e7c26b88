"""A reduced runtime library by itself, for those who call ONNX Runtime from Rust, C, Go or C#."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from edgepack.bundles.manifest import MANIFEST, read_manifest
from edgepack.bundles.place import placed_folder, require_free, require_writable
from edgepack.errors import BundleError, ModelError, UsageError, reason_of
from edgepack.foundry.link.composition import COMPOSITION
from edgepack.foundry.platform import RuntimeOptions, RuntimePlatform
from edgepack.foundry.releases.release_folder import read_room
from edgepack.models.find.source import ingest
from edgepack.operators.config import (
    format_config,
    missing_operators,
    operators_of_ort_model,
    parse_config,
    required,
    union,
)
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import PluginHost
from edgepack.recipes.prepare import prepare_model
from edgepack.recipes.registry import passes_of
from edgepack.records.model import PreparedModel
from edgepack.records.operators import Operators
from edgepack.records.runtime import Fit, LevelProof, Levels, RuntimeArtifact, RuntimeKind
from edgepack.records.target import ModelOptions, Pass
from edgepack.toml_schema import read_foreign

OPERATORS_FILE = "required_operators_and_types.config"
MOST = 1 << 20
"""Bytes of it."""
"""Upstream's name for it: https://onnxruntime.ai/docs/reference/operators/reduced-operator-config-file.html"""


def format_for(kind: RuntimeKind) -> str:
    """The richest format that a kind of runtime is there for."""
    formats: dict[RuntimeKind, str] = {"minimal-extended": "ort-runtime-opt", "full": "onnx"}
    return formats.get(kind, "ort")


@dataclass(frozen=True, kw_only=True)
class LibraryOptions:
    """Options of a library without a bundle."""

    recipe: str | tuple[Pass, ...] = "int8"
    score_recipe: str | tuple[Pass, ...] | None = None
    """Of models with scores, as a target has it."""
    runtime: RuntimeOptions = field(default_factory=RuntimeOptions)

    @property
    def model(self) -> ModelOptions:
        return ModelOptions(
            recipe=self.recipe, score_recipe=self.score_recipe, format=format_for(self.runtime.kind)
        )


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library by itself, and what was proved of it."""

    runtime: RuntimeArtifact
    file: Path
    operators: Operators
    """Those that it was made for."""
    proofs: tuple[LevelProof, ...]


def library_options(
    target: str | None,
    *,
    recipe: str | None,
    kind: RuntimeKind | None,
    glibc: str | None,
    threads: bool = False,
    room: Path | None = None,
    host: PluginHost,
) -> LibraryOptions:
    """A target's recipes, kind and platform, or those of the default; what is named takes precedence, a ``recipe`` over both of a target's.

    ``room`` is the folder of another release. Raises ``TargetError``, and ``UsageError`` for what the platform has no runtimes of.
    """
    options = LibraryOptions()
    if target is not None:
        chosen = host.target(target, ())
        kinds: dict[object, RuntimeKind] = {each: each for each in get_args(RuntimeKind)}
        same = kinds.get(chosen.options.get("runtime"), "minimal")
        options = LibraryOptions(
            recipe=chosen.model.recipe,
            score_recipe=chosen.model.score_recipe,
            runtime=RuntimeOptions(platform=chosen.platform, kind=same),
        )
    runtime = replace(
        options.runtime,
        kind=kind or options.runtime.kind,
        glibc=glibc,
        threads=threads,
        release=read_room(room) if room else None,
    )
    if room and runtime.platform.os != "linux":
        raise UsageError(
            f"runtimes of another release are made for Linux only, not for {runtime.platform.os}",
            hint="omit --release, or choose a target of Linux",
        )
    if recipe is not None:
        return LibraryOptions(recipe=recipe, runtime=runtime)
    return replace(options, runtime=runtime)


def make_library(
    models: Sequence[str | None],
    *,
    options: LibraryOptions,
    platform: RuntimePlatform,
    levels: Levels = "here",
    output: Path,
    context: HostContext,
) -> Library:
    """One runtime for all the models, proved with each, laid out in a new folder ``output``.

    ``lib/`` has the library and what belongs to it, on Linux the links that linkers and loaders look for; ``include/`` the C
    API's header, where C can be linked; and
    beside them lie the models (``.ort``), the operators in upstream's form, what the library is made of (for
    ``edgepack runtime explain``) and the licences.
    Raises ``UsageError`` for what the platform has no runtimes of, ``OutputError`` when ``output`` exists.
    """
    platform.check(replace(options.runtime, shared=True))
    passes_of(options.recipe, context)
    require_free(output, force=False)
    require_writable(output.parent)
    story = context.story
    prepared = []
    for name in models:
        with story.step("model"):
            source = ingest(name, context=context)
        with story.step("prepare"):
            prepared.append(prepare_model(source, options=options.model, context=context))
        _require_names_apart(prepared)
    with story.step("runtime"):
        needs = union(required(model.needs) for model in prepared)
        runtime = platform.reduce(needs, options.runtime, context=context)
        proofs = [platform.prove(model, runtime, levels=levels, context=context) for model in prepared]
    with placed_folder(output, force=False) as folder:
        _lay_library(runtime, runtime.provides or needs, folder)
        platform.lay(runtime, folder, context=context)
        for model in prepared:
            shutil.copyfile(model.file, folder / _name_of(model))
    return Library(runtime=runtime, file=runtime.file, operators=needs, proofs=tuple(worst_by_level(proofs)))


def _name_of(model: PreparedModel) -> str:
    return f"{model.source.name.rpartition('/')[2]}-{model.precision}{model.file.suffix}"


def _require_names_apart(models: Sequence[PreparedModel]) -> None:
    """Raise ``UsageError`` where two models' files would be one."""
    names = [_name_of(model) for model in models]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(
            f"two models would be written as {twice[0]}", hint="rename one of their folders, or name it once"
        )


def worst_by_level(proofs: Iterable[Iterable[LevelProof]]) -> Iterator[LevelProof]:
    """For each level the proof of the model whose vectors were furthest."""
    for same in zip(*proofs, strict=True):
        yield min(same, key=lambda proof: proof.min_cosine)


def prove_again(
    library: Path, model: Path, *, platform: RuntimePlatform, levels: Levels, context: HostContext
) -> tuple[LevelProof, ...]:
    """Prove a model on a library that are out there."""
    for file, what in ((library, "a runtime library"), (model, "a model")):
        if not file.is_file():
            raise UsageError(f"there is no file {file}", hint=f"name {what}")
    with context.story.step("prove"):
        return platform.prove_file(model, library, levels=levels, context=context)


def operators_beside(library: Path) -> Operators | None:
    """Operators that a library provides, by the file that lies beside it, or by the manifest of the bundle that it lies in. Raises ``BundleError``."""
    for folder in (library.parent, library.parent.parent):
        if (file := folder / OPERATORS_FILE).is_file():
            try:
                return parse_config(read_foreign(file, most=MOST).decode())
            except (OSError, ValueError) as error:
                raise BundleError(
                    f"{file} cannot be read: {reason_of(error)}", hint="it is a text that lists operators"
                ) from error
        if (folder / MANIFEST).is_file():
            lines = (read_manifest(folder)["runtime"] or {}).get("operators")
            return None if lines is None else parse_config("\n".join(lines))
    return None


def fit(library: Path, model: Path, *, platform: RuntimePlatform, context: HostContext) -> Fit:
    """Whether a library runs a model, and which operator kernels it lacks.

    What lies beside the library says it for a model in ORT format; where nothing does, and for ONNX models, the model
    is tried. Raises ``BundleError`` for what is tried and is no ONNX Runtime, ``ModelError`` for what is not a model.
    """
    if not library.is_file():
        raise BundleError(
            f"there is no library {library}", hint="`edgepack runtime lib` makes one, lib/libonnxruntime.so"
        )
    if not model.is_file():
        raise ModelError(
            f"there is no model {model}",
            hint="give the model's file, .ort or .onnx: a bundle has it in model/",
        )
    if model.suffix not in (".ort", ".onnx"):
        raise ModelError(
            f"{model} is neither an .ort nor an .onnx model",
            hint="`edgepack bundle` makes one, model/model.ort",
        )
    provided = operators_beside(library) if model.suffix == ".ort" else None
    if provided is None:
        return platform.try_model(library, model, context=context)
    lacking = missing_operators(operators_of_ort_model(model), provided)
    return Fit(
        missing=tuple(
            f"{kernel.domain} {kernel.name} {kernel.since} {kernel.types}".rstrip() for kernel in lacking
        )
    )


def _lay_library(runtime: RuntimeArtifact, operators: Operators, folder: Path) -> None:
    (folder / "lib").mkdir()
    for file in (runtime.file, *runtime.companions):
        shutil.copyfile(file, folder / "lib" / file.name)
    (folder / OPERATORS_FILE).write_text(format_config(operators), encoding="utf-8")
    shutil.copyfile(runtime.file.parent / COMPOSITION, folder / COMPOSITION)
    (folder / "LICENSES").mkdir()
    for license in runtime.licenses:
        shutil.copyfile(license, folder / "LICENSES" / license.name)
