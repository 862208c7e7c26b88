"""A model by itself, without a bundle: made small, or only converted, and written where the user wants it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import onnx

from edgepack.context import BuildContext
from edgepack.errors import OutputError
from edgepack.files.store import disk_errors, written_beside
from edgepack.models.ort.convert import Level, convert_to_ort, save_optimized
from edgepack.models.reference import exported_model
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.operators import Operators
from edgepack.records.target import ModelOptions, Platform

TOKENIZER = "tokenizer.json"


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
    """Write the model that a recipe makes into ``folder``, with its tokenizer beside it; the model's path.

    Raises what ``prepare_model`` raises, and ``OutputError`` when the folder cannot be written to.
    """
    from edgepack.models.read.tokenizer import minimal_json

    prepared = prepare_model(source, options=options, platform=platform, context=context)
    destination = folder / prepared.file.name
    with written_beside(destination) as temporary:
        shutil.copyfile(prepared.file, temporary)
    with written_beside(folder / TOKENIZER) as temporary:
        temporary.write_text(minimal_json(prepared.source), encoding="utf-8")
    return prepared, destination


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
    from edgepack.operators.config import operators_of_ort_model

    if destination.is_dir():
        raise OutputError(f"{destination} is a folder", hint="name the file to be written, e.g. model.ort")
    model = onnx.load(str(exported_model(source, context=context)))
    with disk_errors(destination):
        convert_to_ort(model, destination, level=level, runtime_optimizations=runtime_optimizations)
        if optimized is not None:
            save_optimized(model, optimized, level="basic" if runtime_optimizations else level)
    return Converted(file=destination, needs=operators_of_ort_model(destination))
