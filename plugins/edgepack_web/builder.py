"""The builder of web bundles, one method a step."""

import shutil
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
from edgepack_web.node import NODE_PROGRAM, require_same_tokens, write_node_program
from edgepack_web.npm.node import has_node
from edgepack_web.packages import (
    PACKAGE,
    TOKENIZERS_VERSION,
    package_license,
    stock_web_runtime,
    tokenizers_library,
)
from edgepack_web.page import Folder, write_page
from edgepack_web.webgpu import VERSION as WEBGPU_VERSION
from edgepack_web.webgpu import OnGpu, on_gpu

OPTIONS: OptionTable = {
    "runtime": ("reduced", "stock"),
    "fallback": ("none", "stock"),
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
    runtime: str
    fallback: str
    asset_cap: int
    threads: bool = False
    webgpu: bool = False
    copies: bool = True
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
        tables = api.tokenizer_tables(model.source)
        library = (
            tokenizers_library(self.context) if tables.wordpiece is None and tables.unigram is None else None
        )
        root = self.context.work_dir / "web"
        root.mkdir()
        folder = Folder(root=root, cap=self.asset_cap)
        placement = write_page(
            folder,
            model=model,
            runtimes=[(self.runtime, runtime), *self._with_threads(model), *self._fallbacks(model)],
            tables=tables,
            library=library,
            gpu=self._on_gpu(model.source),
            copies=self.copies,
            context=self.context,
        )
        write_node_program(root)
        self._compare_tokens(root, model.source)
        return RunnerArtifact(
            directory=root,
            program="embed.mjs",
            kind="web",
            versions={"@huggingface/tokenizers": TOKENIZERS_VERSION} if library else {},
            licenses=self._licenses(library),
            parts=folder.parts,
            placement=placement,
            outputs=self.outputs,
            command=("node", NODE_PROGRAM),
        )

    def _licenses(self, tokenizers: Path | None) -> tuple[Path, ...]:
        texts = [package_license(PACKAGE, WEBGPU_VERSION, context=self.context)] if self.webgpu else []
        if tokenizers:
            # Named after its file in a bundle: the package's own name has a slash.
            text = self.context.work_dir / f"huggingface-tokenizers-{TOKENIZERS_VERSION}.txt"
            texts.append(Path(shutil.copyfile(tokenizers / "LICENSE", text)))
        return tuple(texts)

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

    def _compare_tokens(self, root: Path, source: ModelSource) -> None:
        if not has_node():
            self.context.note("tokenizer not compared: no Node")
            return
        compared = require_same_tokens(root, source, context=self.context)
        self.context.note(f"tokenizer identical on {compared:,} texts")


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options and platform."""
    if (target.platform.os, target.platform.arch) != ("web", "wasm32"):
        raise TargetError(
            f"target {target.name}: builder web makes bundles for web on wasm32, "
            f"not {target.platform.os} {target.platform.arch}"
        )
    options = read_options(target, OPTIONS)
    if target.model.format != "ort":
        raise TargetError(
            f"target {target.name}: a web bundle holds a model in ORT format, not {target.model.format}",
            hint="--set model.format=ort",
        )
    try:
        cap = parse_size(options["asset_cap"])
    except ValueError as error:
        raise TargetError(f"target {target.name}: asset_cap: {error}") from error
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
        asset_cap=cap,
        threads=options["threads"],
        webgpu=options["webgpu"],
        copies=options["copies"],
    )
