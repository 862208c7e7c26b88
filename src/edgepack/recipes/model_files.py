"""A model by itself, without a bundle: made small, or only converted, and written where the user wants it."""

from dataclasses import dataclass
from pathlib import Path

from edgepack.bundles.place import FolderKind, placed_folder, require_free
from edgepack.context import BuildContext
from edgepack.errors import OutputError, UnsupportedModelError
from edgepack.files.folder import named_path
from edgepack.files.store import disk_errors
from edgepack.models.graph.external_weights import load_graph
from edgepack.models.ort.convert import Level, convert_to_ort, save_optimized
from edgepack.models.read.quantize_record import MadeSmall
from edgepack.models.reference import exported_model
from edgepack.operators.config import operators_of_ort_model
from edgepack.recipes.model_folder import files_as_written, write_model_folder
from edgepack.recipes.prepare import in_one_file, prepare_model
from edgepack.recipes.registry import passes_of
from edgepack.records.model import FULL_PRECISION, ModelSource, PreparedModel
from edgepack.records.operators import Operators
from edgepack.records.target import ModelOptions, Platform

EXACT = ("fuse", "merge-projections", "smooth", "sequence-first", "prune-vocabulary")
"""Passes after which the vectors are those of full precision."""


MADE_HERE = FolderKind(name="a model that edgepack made small", files=files_as_written)


@dataclass(frozen=True, kw_only=True)
class Converted:
    """A file in ORT format, and what it needs of a runtime."""

    file: Path
    needs: Operators


def quantize_model(
    source: ModelSource,
    folder: Path,
    *,
    options: ModelOptions,
    platform: Platform | None = None,
    context: BuildContext,
) -> tuple[PreparedModel, Path]:
    """Write the model that a recipe makes as a folder, all of it or nothing; what it is, and the model's path.

    An empty folder is filled, one that was written here before is replaced. Raises what ``prepare_model`` raises, and
    ``OutputError`` when the folder holds anything else or cannot be written to.
    """
    _require_embeddings(source)
    folder = named_path(folder)
    require_free(folder, force=True, kind=MADE_HERE)
    if folder.exists() and folder.samefile(source.directory):
        raise OutputError(f"{folder} holds the input model", hint="name another folder with --output")
    prepared = prepare_model(source, options=options, platform=platform, context=context)
    exact = all(step.name in EXACT for step in passes_of(options.recipe, context))
    made = MadeSmall(
        origin=source.origin,
        recipe=prepared.recipe,
        # Float weights that a pass has rounded are no full precision either.
        precision=prepared.precision if exact or prepared.precision != FULL_PRECISION else "rounded",
        dimension=source.dimension,
        warnings=source.warnings,
    )
    with placed_folder(folder, force=True, kind=MADE_HERE) as work:
        write_model_folder(prepared, source, made, work)
    return prepared, folder / prepared.file.name


def _require_embeddings(source: ModelSource) -> None:
    """A head is no part of the file. Raises ``UnsupportedModelError``."""
    if source.head is not None:
        raise UnsupportedModelError(
            f"{source.name} is {source.head.noun}, whose last layer the program of a bundle computes",
            hint="edgepack bundle ships it with its program; a model file alone would lack it",
        )


def convert_model(
    source: ModelSource,
    destination: Path,
    *,
    level: Level = "all",
    runtime_optimizations: bool = False,
    optimized: Path | None = None,
    context: BuildContext,
) -> Converted:
    """Write a model in ORT format just as it is: pooling inside, nothing fused beyond ONNX Runtime's own optimizers.

    ``optimized`` is where the optimized graph goes as ONNX, too, for Netron. Raises ``ModelError`` or
    ``UnsupportedModelError`` when ONNX Runtime refuses the model, ``OutputError`` for a path that cannot be written.
    """
    _require_embeddings(source)
    if destination.is_dir():
        raise OutputError(f"{destination} is a folder", hint="name an output file, e.g. model.ort")
    model = in_one_file(load_graph(exported_model(source, context=context)), source)
    with disk_errors(destination):
        convert_to_ort(model, destination, level=level, runtime_optimizations=runtime_optimizations)
        if optimized is not None:
            save_optimized(model, optimized, level="basic" if runtime_optimizations else level)
    return Converted(file=destination, needs=operators_of_ort_model(destination))
