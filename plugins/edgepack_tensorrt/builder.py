"""The builder of TensorRT bundles, one method a step."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from edgepack import api
from edgepack.api import (
    BuildContext,
    ModelSource,
    OptionTable,
    PreparedModel,
    RunnerArtifact,
    RuntimeArtifact,
    Target,
    TargetBuilder,
    TargetError,
    kit,
    read_options,
)
from edgepack.api.kit import RuntimeFolder
from edgepack_cuda.api import dotted, require_linux
from edgepack_tensorrt.profile import Profile, profile_for
from edgepack_tensorrt.rtx import rtx_runtime, with_engine
from edgepack_tensorrt.runtime import bindings_folder, rtx_libraries

CAPABILITIES = ("8.6", "8.9", "12.0", "12.1")
"""What TensorRT-RTX builds engines for and its provider runs on: Ampere, Ada and Blackwell of GeForce, RTX and DGX Spark."""
RECIPES = ("half", "unfused")
PASSES = frozenset({"prune-vocabulary", "merge-projections", "half"})
"""What leaves operators that TensorRT's parser knows."""
OPTIONS: OptionTable = {"capabilities": list(CAPABILITIES), "batch_size": 8, "max_batch": 32}


@dataclass(frozen=True, kw_only=True)
class TensorrtBuilder:
    """Makes bundles that need an NVIDIA GPU and its driver of their device."""

    target: Target
    context: BuildContext
    capabilities: tuple[str, ...]
    batch_size: int
    max_batch: int
    outputs: tuple[str, ...] = ()

    @cached_property
    def libraries(self) -> RuntimeFolder:
        return rtx_libraries(self.context)

    def profile(self, source: ModelSource) -> Profile:
        return profile_for(
            self.target, batch_size=self.batch_size, max_batch=self.max_batch, max_length=source.max_length
        )

    def require_model(self, source: ModelSource) -> None:
        from edgepack.recipes.prepare import try_passes
        from edgepack.recipes.registry import passes_for
        from edgepack.runner.native.build import require_native

        self.profile(source)
        try_passes(source, passes_for(source, self.target.model, self.context), context=self.context)
        require_native(source, context=self.context)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        profile = self.profile(source)
        prepared = api.prepare_model(
            source, options=self.target.model, platform=self.target.platform, context=self.context
        )
        return with_engine(
            prepared,
            profile=profile,
            capabilities=self.capabilities,
            libraries=self.libraries,
            context=self.context,
        )

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact:
        profile = self.profile(model.source)
        return rtx_runtime(model, profile=profile, capabilities=self.capabilities, libraries=self.libraries)

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        return kit.link_loading_runner(
            model, platform=self.target.platform, serve=True, signatures=True, gpu=True, context=self.context
        )


def fetch(target: Target, context: BuildContext) -> None:
    """Put everything that a build of the target fetches into the store."""
    create_builder(target, context)
    rtx_libraries(context)
    bindings_folder(context)


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options and platform."""
    require_linux(
        target, hint="NVIDIA's wheels for other machines hold other libraries, which are not pinned"
    )
    recipe = target.model.recipe
    fits = recipe in RECIPES if isinstance(recipe, str) else {step.name for step in recipe} <= PASSES
    if not fits or target.model.format != "onnx":
        words = recipe if isinstance(recipe, str) else ", ".join(step.name or step.recipe for step in recipe)
        raise TargetError(
            f"target {target.name}: TensorRT requires an unfused ONNX model, recipe half or unfused in format onnx, "
            f"not {words} in {target.model.format}",
            hint="--recipe half and --set model.format=onnx; quantized models are for CPUs",
        )
    options = read_options(target, OPTIONS)
    profile_for(target, batch_size=options["batch_size"], max_batch=options["max_batch"], max_length=1)
    return TensorrtBuilder(
        target=target,
        context=context,
        capabilities=_capabilities(target, options["capabilities"]),
        batch_size=options["batch_size"],
        max_batch=options["max_batch"],
    )


def _capabilities(target: Target, wanted: Sequence[object]) -> tuple[str, ...]:
    """Checked and sorted, e.g. ``("8.6", "12.0")``; ``86`` is taken for ``8.6``."""
    found = []
    for each in wanted:
        text = dotted(each)
        if text not in CAPABILITIES:
            raise TargetError(
                f"target {target.name}: TensorRT-RTX has no engines for compute capability {each}",
                hint=f"it has for {', '.join(CAPABILITIES)}; for data-centre GPUs use target linux-x64-cuda",
            )
        found.append(text)
    if not found:
        raise TargetError(
            f"target {target.name}: capabilities is empty", hint=f"some of: {', '.join(CAPABILITIES)}"
        )
    return tuple(sorted(set(found), key=lambda text: [int(part) for part in text.split(".")]))
