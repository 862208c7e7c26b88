"""Web bundles on edgepack's engine: a plan in the place of an ONNX Runtime model, and a small module that computes it."""

from dataclasses import dataclass
from typing import Any

from edgepack.api import (
    BuildContext,
    ModelSource,
    PreparedModel,
    RunnerArtifact,
    RuntimeArtifact,
    Target,
    TargetError,
)
from edgepack_engine.api import EngineBuilder, plan_builder, web_assembly
from edgepack_web.page import ENGINE, OwnEngine
from edgepack_web.runner import PageOptions, make_page

NOT_HERE = ("fallback", "threads", "webgpu")
"""Options of runtimes that the engine is none of."""


@dataclass(frozen=True, kw_only=True)
class EngineWebBuilder:
    """Makes folders that any static host can serve, without ONNX Runtime."""

    page: PageOptions
    plans: EngineBuilder
    context: BuildContext
    outputs: tuple[str, ...] = ("sparse",)

    def require_model(self, source: ModelSource) -> None:
        self.plans.require_plan(source)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        return self.plans.prepare_model(source)

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        return None

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        module, relaxed, licenses = web_assembly(model.file, context=self.context)
        self.context.note(f"{ENGINE}, {module.stat().st_size / 1e6:.2f} MB")
        return make_page(
            model,
            engine=OwnEngine(module=module, relaxed=relaxed),
            licenses=licenses,
            options=self.page,
            outputs=self.outputs,
            exact=self.plans.arithmetic,
            context=self.context,
        )


def engine_builder(
    target: Target, options: dict[str, Any], page: PageOptions, *, context: BuildContext
) -> EngineWebBuilder:
    """Raises ``TargetError`` for options and recipes that the engine does not take."""
    if other := next((name for name in NOT_HERE if options[name] not in (False, "none")), None):
        raise TargetError(
            f'target {target.name}: runtime = "engine" has no {other}',
            hint=f"--set runtime=reduced --set model.format=ort, or leave {other} out",
        )
    plans = plan_builder(target, attention=options["attention"], context=context)
    return EngineWebBuilder(page=page, plans=plans, context=context)
