"""The builder of encoders for Windows with edgepack's own kernels: builder ``engine``'s plan and program, laid out as Windows wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgepack.api import (
    BuildContext,
    ModelSource,
    OptionTable,
    PreparedModel,
    RunnerArtifact,
    RuntimeArtifact,
    Target,
    TargetBuilder,
    read_options,
)
from edgepack_windows.builder import PROGRAM, lay_program, require_windows
from edgepack_windows.layout import PeLayout, layout_of
from edgepack_windows.wine import find_wine

if TYPE_CHECKING:
    from edgepack_engine.api import EngineBuilder

OPTIONS: OptionTable = {"serve": False, "attention": ("int8", "float"), "authenticode": None}


@dataclass(frozen=True, kw_only=True)
class WindowsEngineBuilder:
    """Makes bundles of encoders that the engine computes."""

    target: Target
    context: BuildContext
    engine: EngineBuilder
    layout: PeLayout
    outputs: tuple[str, ...] = ()

    def require_model(self, source: ModelSource) -> None:
        self.engine.require_model(source)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        find_wine(context=self.context)
        return self.engine.prepare_model(source)

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        return None

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        made = self.engine.make_runner(model, runtime)
        return replace(made, directory=lay_program(made, self.layout), program=PROGRAM)


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options, platform and recipe."""
    from edgepack_engine.api import engine_builder  # onnx's, which listings do without.

    options = read_options(target, OPTIONS)
    require_windows(target)
    return WindowsEngineBuilder(
        target=target,
        context=context,
        engine=engine_builder(
            target, serve=options["serve"], attention=options["attention"], context=context
        ),
        layout=layout_of(target, options, context=context),
    )
