"""The builder of bundles whose program computes the model itself."""

import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from edgepack.api import (
    BuildContext,
    ModelSource,
    Platform,
    PreparedModel,
    RunnerArtifact,
    RuntimeArtifact,
    Target,
    TargetBuilder,
    TargetError,
    prepare_model,
    read_options,
    require_runtime,
)
from edgepack.api.kit import link_encoder
from edgepack.files.store import digest_of_code
from edgepack.recipes.prepare import try_passes
from edgepack.recipes.registry import passes_for, passes_of
from edgepack.records.target import Pass
from edgepack.runner.native.build import require_native
from edgepack_bindings.api import jni_exports, jni_sources
from edgepack_engine.lower import lower
from edgepack_engine.options import OPTIONS
from edgepack_engine.plan import SELDOM, Plan, write_plan
from edgepack_engine.sound import has_steps

PACKAGE = "edgepack_engine"
FILE = "model.plan"
LATE_CHUNKS = "late_chunks.cc"
"""What chunks ask of the session beside vectors of texts."""
OUTPUTS = ("scores", "sparse", "tokens")
"""What plans give beside vectors."""
ARITHMETIC = "edgepack-engine 1"
"""Another number whenever the same plan gives other bits: an index of before no longer serves."""
BY_TOKEN = "int8-dynamic"
"""The pass that makes what the engine computes, unless it is told to quantize by tensor."""
ROUNDING = ("steps", "table_steps", "weighed", "rarity", "gradients", "bit_cost")
"""Its parameters that decide numbers alone."""
NUMBERS = ("smooth", "prune-vocabulary")
"""Passes that leave operators as they are: one divides and multiplies, the other, which reads many texts, takes rows of a table away."""
OTHERS = ("half", "half-fused", "int4", "int8-static", "int8-weights")
"""Passes that make what no step computes, whatever else the recipe has."""

ANY_RECIPE = {
    "linux": "linux-x86-min (on arm64 linux-arm64-min)",
    "windows": "windows-x64",
    "web": "web-wasm",
}
"""Targets with ONNX Runtime, by system; for macOS there is none."""


@dataclass(frozen=True, kw_only=True)
class EngineBuilder:
    """Makes bundles of encoders that edgepack's int8 recipes quantize by token."""

    target: Target
    context: BuildContext
    serve: bool = False
    chunks: bool = False
    polite: bool = False
    library: bool = False
    attention: str = "int8"
    outputs: tuple[str, ...] = OUTPUTS

    @property
    def arithmetic(self) -> str:
        """Its name: bundles with one and the other attention have vectors of their own."""
        return ARITHMETIC if self.attention == "int8" else f"{ARITHMETIC}, attention in {self.attention}s"

    def require_model(self, source: ModelSource) -> None:
        self.require_plan(source)
        require_native(source, context=self.context)

    def require_plan(self, source: ModelSource) -> None:
        """Raise ``UnsupportedModelError`` for a graph that no plan can be made of, whatever its numbers are and whoever tokenizes its texts."""
        passes = passes_for(source, self.target.model, self.context)
        if any(self.context.extensions("pass")[each.name].identity for each in passes):
            return  # What passes of other plugins make is only known when they have made it.
        try_passes(
            source,
            tuple(map(_at_once, filter(_shapes, passes))),
            lambda graph: self._lowered(source, graph),
            key=f"engine {digest_of_code(PACKAGE)} {self.attention}",
            context=self.context,
        )

    def _lowered(self, source: ModelSource, graph: onnx.ModelProto) -> Plan:
        return lower(graph, longest=longest_of(source), in_floats=self.attention == "float")

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        graph = prepare_model(
            source,
            options=replace(self.target.model, format="onnx"),
            platform=self.target.platform,
            context=self.context,
        )

        def make(folder: Path) -> None:
            write_plan(self._lowered(source, onnx.load(graph.file)), folder / FILE)

        # A graph is in the store under what it was made of.
        inputs = {
            "by": digest_of_code(PACKAGE),
            "graph": graph.file.parent.name,
            "longest": str(longest_of(source)),
            "attention": self.attention,
        }
        file = self.context.store.cached("engine-plan", inputs, make) / FILE
        how = ", attention in floats" if self.attention == "float" else ""
        self.context.note(f"plan, {file.stat().st_size / 1e6:.1f} MB{how}")
        return replace(graph, file=file, format="plan", needs=None, oracle=graph.file, batch_dependent=False)

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        return None

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        twin = self._twin(model)
        made = self._linked(model, self.target.platform)
        return replace(made, by_level=True, exact=self.arithmetic, twin=twin)

    def _linked(self, model: PreparedModel, platform: Platform) -> RunnerArtifact:
        chunked = self.library or self.serve or self.chunks
        return link_encoder(
            model,
            library_code(model.file) if chunked else program_code(model.file),
            outputs=self.outputs,
            library=self.library,
            any_libc=True,
            serve=self.serve,
            chunks=self.chunks,
            polite=self.polite,
            beside=jni_sources(),
            exports=jni_exports(),
            platform=platform,
            context=self.context,
        )

    def _twin(self, model: PreparedModel) -> Path | None:
        """A program for this machine, where none here runs that for the target."""
        if self.target.platform.os != "macos":
            return None
        here = Platform(os="linux", arch=platform.machine(), glibc="2.28")
        alone = replace(self, library=False, serve=False, chunks=False, polite=False)
        made = alone._linked(model, here)
        # What is linked next for this bundle lies in the same folder.
        return Path(shutil.copy(made.directory / made.program, self.context.work_dir / "twin"))


def longest_of(source: ModelSource) -> int:
    """Tokens of a text, at most: queries of multi-vector models may be filled up to more than others are cut to."""
    vectors = source.outputs.multi_vector if source.outputs else None
    sides = (vectors.query, vectors.document) if vectors else ()
    return max([source.max_length, *(max(side.length, side.least) for side in sides)])


def _shapes(step: Pass) -> bool:
    """Whether a pass decides what a graph is like, and not its numbers alone."""
    return step.name not in NUMBERS


def _at_once(step: Pass) -> Pass:
    """The pass without what it calibrates for."""
    if step.name != BY_TOKEN:
        return step
    kept = {key: value for key, value in step.parameters.items() if key not in ROUNDING}
    return replace(step, parameters=kept)


def sources(*, seldom: bool = True) -> Iterator[tuple[str, str]]:
    """File name → text of the C++ that computes plans; without ``seldom`` those that have no step of ``SELDOM``."""
    without = "no_each.cc" if seldom else "each.cc"
    for path in sorted((Path(__file__).parent / "csrc").iterdir()):
        if path.is_file() and path.name != without:
            yield path.name, path.read_text(encoding="utf-8")


def program_code(plan: Path) -> dict[str, str]:
    """Sources that compute a plan."""
    return dict(sources(seldom=has_steps(plan, SELDOM)))


def library_code(plan: Path) -> dict[str, str]:
    """Sources that compute a plan, and late chunks."""
    late = Path(__file__).parent / "csrc/features" / LATE_CHUNKS
    return {**program_code(plan), LATE_CHUNKS: late.read_text(encoding="utf-8")}


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options and platform."""
    if target.platform.os not in ("linux", "macos"):
        raise TargetError(
            f"target {target.name}: builder engine makes bundles for linux and macos, not for {target.platform.os}"
        )
    options = read_options(target, OPTIONS)
    if options["polite"] and target.platform.os != "linux":
        raise TargetError(
            f"target {target.name}: polite = true is for Linux, which tells of batteries by files",
            hint="leave polite out",
        )
    return engine_builder(target, context=context, **options)


def engine_builder(
    target: Target,
    *,
    serve: bool,
    chunks: bool = False,
    polite: bool = False,
    library: bool = False,
    attention: str,
    context: BuildContext,
) -> EngineBuilder:
    """The builder for any system that a program can be linked for. Raises ``UsageError`` or ``TargetError``."""
    require_runtime(target.platform, shared=library, any_libc=True, context=context)
    require_by_token(target, context)
    return EngineBuilder(
        target=target,
        context=context,
        serve=serve,
        chunks=chunks,
        polite=polite,
        library=library,
        attention=attention,
    )


def require_by_token(target: Target, context: BuildContext) -> None:
    """Refuse a recipe whose result no step computes, before the model is fetched and minutes go into it.

    What passes of other plugins make is only known when they have made it. Raises ``TargetError``.
    """
    recipe = target.model.recipe
    passes = {each.name: each.parameters for each in passes_of(recipe, context)}
    foreign = any(context.extensions("pass")[name].identity for name in passes)
    other = next((name for name in passes if name in OTHERS), None)
    tensors = passes.get(BY_TOKEN, {}).get("activations", "token") != "token"
    if other or tensors or not (BY_TOKEN in passes or foreign):
        called = f"recipe {recipe}" if isinstance(recipe, str) else "its recipe"
        why = (
            f"pass {other}" if other else f"{BY_TOKEN} by tensor" if tensors else f"it has no pass {BY_TOKEN}"
        )
        raise TargetError(
            f"target {target.name}: the engine takes int8 weights and activations by token, not {called} ({why})",
            hint=f"--recipe int8; --target {ANY_RECIPE.get(target.platform.os, ANY_RECIPE['linux'])} takes any recipe",
        )
