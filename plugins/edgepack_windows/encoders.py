"""The builders for Windows of programs without ONNX Runtime: those of builders ``static`` and ``engine``, laid out as Windows wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    missing_tools,
    read_options,
)
from edgepack_windows.builder import PROGRAM, lay_program, require_windows
from edgepack_windows.layout import PeLayout, layout_of
from edgepack_windows.wine import can_have_wine, find_wine

if TYPE_CHECKING:
    from edgepack_engine.api import EngineBuilder
    from edgepack_static.api import StaticBuilder

STATIC: OptionTable = {"serve": False, "authenticode": None}
ENGINE: OptionTable = {
    "serve": False,
    "chunks": False,
    "attention": ("int8", "float"),
    "authenticode": None,
}


@dataclass(frozen=True, kw_only=True)
class EncoderBuilder:
    """Makes the bundles of another builder, whose program is laid out for Windows."""

    builder: StaticBuilder | EngineBuilder
    layout: PeLayout

    @property
    def outputs(self) -> tuple[str, ...]:
        """Outputs of the other builder's programs."""
        return self.builder.outputs

    def require_model(self, source: ModelSource) -> None:
        self.builder.require_model(source)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        find_wine(context=self.layout.context)
        return self.builder.prepare_model(source)

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        return None

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        made = self.builder.make_runner(model, runtime)
        return replace(made, directory=lay_program(made, self.layout), program=PROGRAM)


def missing(target: Target) -> Iterable[str]:
    """Missing tools to compile the program, and wine where it cannot be fetched."""
    yield from missing_tools(packages={"ziglang": "zig", "capstone": "capstone"})
    if not can_have_wine():
        yield "wine64"


def fetch(target: Target, context: BuildContext) -> None:
    """wine."""
    find_wine(context=context)


def create_static(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the options, platform and recipe of a target for static embeddings."""
    from edgepack_static.api import static_builder  # NumPy's, which listings do without.

    return _laid_out(static_builder, STATIC, target, context)


def create_engine(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the options, platform and recipe of a target for encoders that the engine computes."""
    from edgepack_engine.api import engine_builder  # onnx's, which listings do without.

    return _laid_out(engine_builder, ENGINE, target, context)


def _laid_out(
    make: Callable[..., StaticBuilder | EngineBuilder],
    known: OptionTable,
    target: Target,
    context: BuildContext,
) -> TargetBuilder:
    options = read_options(target, known)
    require_windows(target)
    own = {name: options[name] for name in known if name != "authenticode"}
    builder = make(target, context=context, **own)
    return EncoderBuilder(builder=builder, layout=layout_of(target, options, context=context))
