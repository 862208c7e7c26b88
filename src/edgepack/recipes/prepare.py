"""From a source to the file that is shipped: export, the recipe's passes, conversion, and what the result needs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from edgepack.models.graph_writer import OUTPUT
from edgepack.models.ort_format import convert_to_ort
from edgepack.models.reference import exported_model
from edgepack.models.session import input_names, open_session
from edgepack.models.source_key import source_key
from edgepack.recipes.precision import is_batch_dependent, precision_of
from edgepack.recipes.registry import passes_of, transform_of
from edgepack.records import ModelOptions, ModelSource, Pass, PreparedModel

if TYPE_CHECKING:
    from edgepack.context import BuildContext

PREPARE_SCHEMA = "1"
"""Changes whenever the same source and recipe would give another file than before."""


def prepare_model(source: ModelSource, *, options: ModelOptions, context: BuildContext) -> PreparedModel:
    """Make a model small by its target's recipe and convert it to its target's format.

    ``needs`` are those of the finished file. Made once for the same source, recipe and versions; the same inputs give
    the same bytes. Raises ``TargetError`` for an unknown recipe, pass or parameter, ``ModelError`` and
    ``UnsupportedModelError`` for a model that cannot be taken.
    """
    passes = passes_of(options.recipe)
    name = "model.onnx" if options.format == "onnx" else "model.ort"

    def make(folder: Path) -> None:
        _make(source, passes, options, folder, context=context)

    inputs = {
        **source_key(source),
        "passes": json.dumps([[step.name, dict(sorted(step.parameters.items()))] for step in passes]),
        "format": options.format,
        "edgepack": version("edgepack"),
        "prepare": PREPARE_SCHEMA,
    }
    folder = context.store.cached("prepared", inputs, make)
    prepared = _describe(folder / name, source, passes, options)
    context.note(summary(prepared))
    return prepared


def _make(
    source: ModelSource, passes: Iterable[Pass], options: ModelOptions, folder: Path, *, context: BuildContext
) -> None:
    model = onnx.load(str(exported_model(source, context=context)))
    for step in passes:
        model = transform_of(step)(model, **step.parameters)
    if options.format == "onnx":
        (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
        convert_to_ort(model, folder / "needs.ort")
    else:
        convert_to_ort(model, folder / "model.ort", runtime_optimizations=options.format == "ort-runtime-opt")
    facts = {"precision": precision_of(model), "batch_dependent": is_batch_dependent(model)}
    (folder / "facts.json").write_text(json.dumps(facts))


def _describe(
    file: Path, source: ModelSource, passes: tuple[Pass, ...], options: ModelOptions
) -> PreparedModel:
    from edgepack.foundry.operators import operators_of_ort_model

    facts = json.loads((file.parent / "facts.json").read_text())
    converted = file.parent / "needs.ort" if options.format == "onnx" else file
    return PreparedModel(
        file=file,
        format=options.format,
        precision=facts["precision"],
        recipe=", ".join(["pool", *map(in_words, passes)]),
        needs=operators_of_ort_model(converted),
        source=source,
        inputs=input_names(open_session(file)),
        output=OUTPUT,
        batch_dependent=facts["batch_dependent"],
    )


def in_words(step: Pass) -> str:
    """A pass as a person writes it, e.g. ``int8-dynamic(reduce_range=true)``."""
    if not step.parameters:
        return step.name
    pairs = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(step.parameters.items()))
    return f"{step.name}({pairs})"


def summary(prepared: PreparedModel) -> str:
    """In a few words, e.g. ``fused, pooled, int8 … 22.9 MB .ort``."""
    fused = "fused, " if "fuse" in prepared.recipe else ""
    size = prepared.file.stat().st_size / 1e6
    return f"{fused}pooled, {prepared.precision} … {size:.1f} MB {prepared.file.suffix}"
