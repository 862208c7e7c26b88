"""The builder of web bundles, one method a step."""

from dataclasses import dataclass
from pathlib import Path

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
    parse_size,
    read_options,
)
from edgepack_web.npm.node import has_node
from edgepack_web.packages import PACKAGE, package_license, stock_web_runtime
from edgepack_web.page import ENGINE
from edgepack_web.runner import PageOptions, make_page
from edgepack_web.webgpu import VERSION as WEBGPU_VERSION
from edgepack_web.webgpu import OnGpu, on_gpu

OPTIONS: OptionTable = {
    "runtime": ("reduced", "stock", ENGINE),
    "fallback": ("none", "stock"),
    "attention": ("int8", "float"),
    "threads": False,
    "webgpu": False,
    "copies": True,
    "asset_cap": "25 MiB",
}


@dataclass(frozen=True, kw_only=True)
class WebBuilder:
    """Makes folders that any static host can serve."""

    target: Target
    context: BuildContext
    page: PageOptions
    runtime: str
    fallback: str
    threads: bool = False
    webgpu: bool = False
    outputs: tuple[str, ...] = ("sparse",)

    def require_model(self, source: ModelSource) -> None:
        from edgepack.recipes.prepare import try_passes

        if source.onnx is not None:
            try_passes(source, (), context=self.context)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        return api.prepare_model(
            source, options=self.target.model, platform=self.target.platform, context=self.context
        )

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact:
        if self.runtime == "reduced":
            runtime = self._reduced(model)
        else:
            runtime = stock_web_runtime(context=self.context)
        self.context.note(f"{self.runtime}, {runtime.file.stat().st_size / 1e6:.2f} MB")
        return runtime

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        assert runtime is not None
        return make_page(
            model,
            runtimes=[(self.runtime, runtime), *self._with_threads(model), *self._fallbacks(model)],
            gpu=self._on_gpu(model.source),
            licenses=self._licenses(),
            options=self.page,
            outputs=self.outputs,
            context=self.context,
        )

    def _licenses(self) -> tuple[Path, ...]:
        return (package_license(PACKAGE, WEBGPU_VERSION, context=self.context),) if self.webgpu else ()

    def _reduced(self, model: PreparedModel, *, threads: bool = False) -> RuntimeArtifact:
        from edgepack_web.foundry.reduce import reduce_web_runtime

        assert model.needs is not None, "api.prepare_model knows them"
        return reduce_web_runtime(model.needs, threads=threads, context=self.context)

    def _on_gpu(self, source: ModelSource) -> OnGpu | None:
        if not self.webgpu:
            return None
        gpu = on_gpu(source, context=self.context)
        sizes = [file.stat().st_size / 1e6 for file in (gpu.wasm, gpu.model)]
        self.context.note(f"WebGPU: runtime {sizes[0]:.1f} MB, model {sizes[1]:.1f} MB")
        return gpu

    def _with_threads(self, model: PreparedModel) -> list[tuple[str, RuntimeArtifact]]:
        """Runtime that a page fetches in the place of the other if it asks for threads."""
        if not self.threads:
            return []
        from edgepack_web.foundry.prove import prove_web

        runtime = self._reduced(model, threads=True)
        if has_node():
            prove_web(model, runtime, context=self.context)
        return [("reduced-threads", runtime)]

    def _fallbacks(self, model: PreparedModel) -> list[tuple[str, RuntimeArtifact]]:
        """The whole runtime, for a page whose own turns out to lack something; nothing of it is fetched before that."""
        if self.fallback == "none" or self.runtime == "stock":
            return []
        return [("stock", stock_web_runtime(context=self.context))]


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options and platform."""
    if (target.platform.os, target.platform.arch) != ("web", "wasm32"):
        raise TargetError(
            f"target {target.name}: builder web makes bundles for web on wasm32, "
            f"not {target.platform.os} {target.platform.arch}"
        )
    options = read_options(target, OPTIONS)
    on_engine = options["runtime"] == ENGINE
    if target.model.format != (wanted := "plan" if on_engine else "ort"):
        raise TargetError(
            f"target {target.name}: with runtime {options['runtime']}, a web bundle holds a model in format {wanted}, not {target.model.format}",
            hint=f"--set model.format={wanted}",
        )
    try:
        page = PageOptions(asset_cap=parse_size(options["asset_cap"]), copies=options["copies"])
    except ValueError as error:
        raise TargetError(f"target {target.name}: asset_cap: {error}") from error
    if on_engine:
        from edgepack_web.on_engine import engine_builder

        return engine_builder(target, options, page, context=context)
    if options["attention"] != "int8":
        raise TargetError(f'target {target.name}: attention is for runtime = "{ENGINE}"', hint="leave it out")
    if options["threads"] and options["runtime"] != "reduced":
        raise TargetError(
            f'target {target.name}: threads = true requires runtime = "reduced"',
            hint='the stock runtime has threads, as does fallback = "stock"',
        )
    return WebBuilder(
        target=target,
        context=context,
        runtime=options["runtime"],
        fallback=options["fallback"],
        page=page,
        threads=options["threads"],
        webgpu=options["webgpu"],
    )
