"""The builder of bundles with a table in a transformer's place."""

import json
import platform
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import (
    BuildContext,
    ModelSource,
    PreparedModel,
    RunnerArtifact,
    RuntimeArtifact,
    Target,
    TargetBuilder,
    TargetError,
    read_options,
    require_runtime,
)
from edgepack.api.kit import find_emulator, link_encoder, static_table
from edgepack.files.store import digest_of_code
from edgepack.models.export.source_key import digests_of
from edgepack.runner.native.build import require_native
from edgepack_static import OPTIONS
from edgepack_static.table import FORMS, require_form, sources, write_table

FILE = "table.bin"


@dataclass(frozen=True, kw_only=True)
class StaticBuilder:
    """Makes bundles of models that are a table with a tokenizer."""

    target: Target
    context: BuildContext
    form: str
    serve: bool = False
    outputs: tuple[str, ...] = ()

    def require_model(self, source: ModelSource) -> None:
        require_form(static_table(source).vectors, self.form)
        require_native(source, context=self.context)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        table = static_table(source)

        def make(folder: Path) -> None:
            write_table(table, self.form, normalize=source.pooling.normalize, destination=folder / FILE)

        inputs = {
            "by": digest_of_code("edgepack_static", "models"),
            "form": self.form,
            "files": json.dumps(sorted((file.path, file.sha256) for file in source.files)),
            "config": json.dumps(dict(source.config), sort_keys=True),
            "pooling": source.pooling.describe(),
        }
        file = self.context.store.cached("static-table", inputs, make, unchanged=digests_of(source)) / FILE
        rows, dimension = table.vectors.shape
        size = file.stat().st_size / 1e6
        self.context.note(
            f"{table.tokens} tokens, {rows} vectors of {dimension}, {self.form} … {size:.1f} MB"
        )
        return PreparedModel(
            file=file,
            format="table",
            precision=self.form,
            recipe=f"table, {self.form}",
            needs=None,
            source=source,
            inputs=("input_ids", "attention_mask"),
        )

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        return None

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        return link_encoder(
            model,
            dict(sources()),
            serve=self.serve,
            platform=self.target.platform,
            context=self.context,
        )


def fetch(target: Target, context: BuildContext) -> None:
    """An emulator, where the target's programs run under one here."""
    if target.platform.arch != platform.machine():
        find_emulator(target.platform.arch, context=context)


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options, platform and recipe."""
    if target.platform.os != "linux":
        raise TargetError(
            f"target {target.name}: builder static makes bundles for linux, not for {target.platform.os}"
        )
    return static_builder(target, serve=read_options(target, OPTIONS)["serve"], context=context)


def static_builder(target: Target, *, serve: bool, context: BuildContext) -> StaticBuilder:
    """The builder for any system that a program can be linked for. Raises ``UsageError`` or ``TargetError``."""
    require_runtime(target.platform, context=context)
    recipe = target.model.recipe
    if recipe not in FORMS:
        named = recipe if isinstance(recipe, str) else "a list of passes"
        raise TargetError(
            f"target {target.name}: a table has no recipe {named!r}", hint=f"--recipe {' or '.join(FORMS)}"
        )
    return StaticBuilder(target=target, context=context, form=str(recipe), serve=serve)
