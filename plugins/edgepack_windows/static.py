"""The builder of static embeddings for Windows: builder ``static``'s table and program, laid out as Windows wants it."""

from __future__ import annotations

from collections.abc import Iterable
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
    from edgepack_static.api import StaticBuilder

OPTIONS: OptionTable = {"serve": False, "authenticode": None}


@dataclass(frozen=True, kw_only=True)
class WindowsStaticBuilder:
    """Makes bundles of models that are a table with a tokenizer."""

    target: Target
    context: BuildContext
    table: StaticBuilder
    layout: PeLayout
    outputs: tuple[str, ...] = ()

    def require_model(self, source: ModelSource) -> None:
        self.table.require_model(source)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        find_wine(context=self.context)
        return self.table.prepare_model(source)

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        return None

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        made = self.table.make_runner(model, runtime)
        return replace(made, directory=lay_program(made, self.layout), program=PROGRAM)


def missing(target: Target) -> Iterable[str]:
    """Missing tools to compile the program, and wine where it cannot be fetched."""
    yield from missing_tools(packages={"ziglang": "zig", "capstone": "capstone"})
    if not can_have_wine():
        yield "wine64"


def fetch(target: Target, context: BuildContext) -> None:
    """wine."""
    find_wine(context=context)


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options, platform and recipe."""
    from edgepack_static.api import static_builder  # NumPy's, which listings do without.

    options = read_options(target, OPTIONS)
    require_windows(target)
    return WindowsStaticBuilder(
        target=target,
        context=context,
        table=static_builder(target, serve=options["serve"], context=context),
        layout=layout_of(target, options, context=context),
    )
