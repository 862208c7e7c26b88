"""The builder of CUDA bundles, one method a step."""

from dataclasses import dataclass

from edgepack import api
from edgepack.api import (
    BuildContext,
    ExecutionProvider,
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
from edgepack_cuda.native import resolve
from edgepack_cuda.nvidia import CUDA, DRIVER, ONNXRUNTIME_GPU, require_linux
from edgepack_cuda.runtime import Choice, fetch_wheels, libraries_for, source_files

NAME = "CUDAExecutionProvider"
OPTIONS: OptionTable = {
    "capabilities": ["8.6"],
    "layout": ("thin", "full", "lite"),
    "units": ("model", "listed", "all"),
    "prune_vendor": False,
    "batch_size": 32,
}
REMEDY = "make the bundle with this one among its capabilities"
ATTENTION = "18"
"""``sdpa_kernel``: 2 (cutlass's memory-efficient attention) and 16 (plain), so that it is known which kernels run."""


@dataclass(frozen=True, kw_only=True)
class CudaBuilder:
    """Makes bundles that need an NVIDIA GPU and its driver, and in the thin layout CUDA's libraries, of their device."""

    target: Target
    context: BuildContext
    architectures: tuple[str, ...]
    layout: str
    units: str
    batch_size: int
    outputs: tuple[str, ...] = ("scores",)

    def require_model(self, source: ModelSource) -> None:
        from edgepack.recipes.prepare import try_passes
        from edgepack.recipes.registry import passes_for
        from edgepack.runner.native.build import require_native

        try_passes(source, passes_for(source, self.target.model, self.context), context=self.context)
        require_native(source, context=self.context)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        return api.prepare_model(
            source, options=self.target.model, platform=self.target.platform, context=self.context
        )

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact:
        choice = Choice(architectures=self.architectures, operators=self.operators(model), layout=self.layout)
        libraries = libraries_for(choice, context=self.context)
        for note in (*libraries.notes, *libraries.changes[:1]):
            self.context.note(note)
        return libraries.folder.artifact(
            version=ONNXRUNTIME_GPU.version,
            # What was pruned is device code, which is matched by the lists.
            toolchain=f"wheel {ONNXRUNTIME_GPU.requirement}",
            source_files=source_files(self.layout),
            provider=ExecutionProvider(
                name=NAME,
                append="cuda",
                # Where all units are left, ONNX Runtime chooses among all kinds of attention.
                options={
                    "device_id": "0",
                    "use_tf32": "0",
                    **({"sdpa_kernel": ATTENTION} if libraries.listed else {}),
                },
                # Operators that only a further optimization would bring in may have had their kernels pruned.
                optimization="none" if libraries.listed else "all",
                capabilities=libraries.capabilities,
                remedy=REMEDY,
                cuda=CUDA,
                libraries=libraries.device,
                system=DRIVER,
                batch_size=self.batch_size,
            ),
            changes=libraries.changes,
        )

    def operators(self, model: PreparedModel) -> tuple[str, ...] | None:
        """The operators whose translation units stay; ``None`` for all units."""
        if self.units == "all":
            return None
        if self.units == "listed":
            from edgepack_cuda.lists import lists_for

            lists = lists_for(ONNXRUNTIME_GPU.version)
            return None if lists is None else tuple(sorted(lists.operators))
        import onnx

        graph = onnx.load(str(model.file), load_external_data=False).graph
        return tuple(sorted({node.op_type for node in graph.node}))

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        return kit.link_loading_runner(
            model, platform=self.target.platform, serve=True, signatures=True, gpu=True, context=self.context
        )


def fetch(target: Target, context: BuildContext) -> None:
    """Put everything that a build of the target fetches into the store."""
    create_builder(target, context)
    fetch_wheels(read_options(target, OPTIONS)["layout"], context=context)


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options and platform."""
    require_linux(target, hint="there is no wheel of ONNX Runtime's CUDA provider for other machines")
    if target.model.format != "onnx":
        raise TargetError(
            f"target {target.name}: the CUDA runtime is of a different version than the converter to {target.model.format}",
            hint="--set model.format=onnx",
        )
    options = read_options(target, OPTIONS)
    if options["layout"] == "lite" and not options["prune_vendor"]:
        raise TargetError(
            f"target {target.name}: layout lite prunes NVIDIA's own libraries, whose licence does not let changed "
            "copies be passed on",
            hint="--set prune_vendor=true for your own devices, or --set layout=full",
        )
    if not options["capabilities"]:
        raise TargetError(
            f"target {target.name}: capabilities is empty", hint='e.g. capabilities = ["8.6"], or ["native"]'
        )
    return CudaBuilder(
        target=target,
        context=context,
        architectures=resolve([str(each) for each in options["capabilities"]]),
        layout=options["layout"],
        units=options["units"],
        batch_size=options["batch_size"],
    )
