"""Any source as one kind of ONNX model: tokens in, one normalised text vector out.

What comes out has the inputs ``input_ids``, ``attention_mask`` and ``token_type_ids`` (int64 [batch, sequence], those
that the model uses), the one output ``sentence_embedding`` (float32 [batch, dimension]) and no other opset than 17
when it was written from weights.
"""

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from edgepack.context import BuildContext, Extension, perhaps_broken
from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.files.store import written_beside
from edgepack.models.export.by_plugin import finished, written_by_plugin
from edgepack.models.export.torch_export import export_with_torch
from edgepack.models.export.unread import ReadTensors, require_all_layers
from edgepack.models.graph.external_weights import LARGE, LARGEST_MODEL, graph_on_disk, weight_bytes
from edgepack.models.graph.writer import GraphWriter, TokenVectors
from edgepack.models.lower.adapt import adapt_graph
from edgepack.models.ort.memory import limits_of_reading
from edgepack.models.read.architectures import AXIS, written_by
from edgepack.models.read.documents import EDITED
from edgepack.models.read.hub_layout import dimension_of
from edgepack.models.read.safetensors import Tensor, TensorFile, open_tensors
from edgepack.records.model import ModelSource

if TYPE_CHECKING:
    from edgepack.models.export.architecture import Architecture


LARGEST_WEIGHTS = 4 * LARGEST_MODEL
"""Bytes of weights in full precision: those of a model that int8 makes small enough for one file."""
SHARING_LAYERS = 1000
COUNTED = ("layers", "n_layer", "blocks", "block_sizes", "heads", "n_head")
"""What keys end with that say how much of something there is, each of which has tensors."""
BESIDE = ".data"
"""After the name of a graph's file: that of its weights, where they are many."""


def export_onnx(source: ModelSource, destination: Path, *, context: BuildContext) -> Path:
    """Write the full-precision model, unfused, pooling and normalisation included, to ``destination``.

    Many weights (``LARGE``) are in a file beside it, ``destination`` with ``.data`` at its end. Raises ``ModelError`` for files that are damaged or contradict each other, ``UnsupportedModelError`` for an
    architecture or an operator that cannot be run.
    """
    beside = destination.with_name(destination.name + BESIDE)
    with written_beside(destination) as temporary:
        aside = temporary.with_name(temporary.name + BESIDE)
        try:
            model = _graph_of(source, aside, context)
            if not aside.exists():
                _require_size(source, weight_bytes(model), LARGEST_MODEL)
            temporary.write_bytes(graph_on_disk(model, beside.name))
            if aside.exists():
                aside.replace(beside)
        finally:
            aside.unlink(missing_ok=True)
    return destination


def _require_size(source: ModelSource, size: int, largest: int) -> None:
    if size > largest:
        raise UnsupportedModelError(
            f"{source.name} has {size / 1e9:.1f} GB of weights in full precision; edgepack takes {largest / 1e9:.0f} GB"
            + (" of an architecture that it does not write itself" if largest == LARGEST_MODEL else ""),
            hint="choose a smaller model of the same family",
        )


def _graph_of(source: ModelSource, aside: Path, context: BuildContext) -> onnx.ModelProto:
    """By whom: its own exporter, an architecture, or PyTorch. An architecture's weights may go to the file ``aside``."""
    if source.onnx is not None:
        return adapt_graph(source, context=context)
    if source.weights is None:
        raise ModelError(
            f"{source.name} has neither weights (model.safetensors) nor an ONNX graph",
            hint="the folder needs model.safetensors or a .onnx file",
        )
    if (architecture := written_by(source.config, context)) is not None:
        return _from_weights(source, source.weights, architecture, aside)
    if source.config.get("model_type") is None:
        raise ModelError(
            "config.json names no model_type",
            hint=f"supported are {', '.join(sorted(context.extensions(AXIS)))}",
        )
    if broken := perhaps_broken(context.extensions(AXIS)):
        kind = source.config["model_type"]
        context.warn(f"nothing that is installed writes the graph of a {kind!r}: PyTorch exports it{broken}")
    tensors = open_tensors(source.weights).tensors
    _require_size(source, _size_of(tensors), LARGEST_MODEL)
    _require_layers(source.config, len(tensors))
    with (
        tempfile.TemporaryDirectory() as folder,
        limits_of_reading("config.json", _size_of(tensors)),
    ):
        exported = export_with_torch(source, Path(folder, "model.onnx"))
        return adapt_graph(replace(source, onnx=exported))


def _size_of(tensors: Mapping[str, Tensor]) -> int:
    """Bytes in full precision."""
    return 4 * sum(math.prod(tensor.shape) for tensor in tensors.values())


def _written(
    write: "Architecture", config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter
) -> TokenVectors:
    """The graph by an architecture. Raises ``ModelError`` where config.json has a value of another kind than that reads."""
    try:
        return write(config, weights, writer)
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise ModelError(
            f"config.json has a value that no {config.get('model_type')} has: {str(error)[:200]}",
            hint=f"{EDITED}; if it is as its author made it, --debug shows what edgepack does not read",
        ) from error


def _require_layers(config: Mapping[str, Any], tensors: int) -> None:
    """Raise ``ModelError`` for more layers than tensors; few tensors serve many layers where these share them."""
    for key, said in config.items():
        counts = said if isinstance(said, list) else [said]
        if key.endswith(COUNTED) and any(
            isinstance(each, int) and each > max(tensors, SHARING_LAYERS) for each in counts
        ):
            raise ModelError(
                f"config.json: {key} is {str(said)[:60]}, and there are {tensors} tensors", hint=EDITED
            )


def _from_weights(source: ModelSource, file: Path, architecture: Extension, aside: Path) -> onnx.ModelProto:
    weights = open_tensors(file)
    size = _size_of(weights.tensors)
    _require_size(source, size, LARGEST_WEIGHTS)
    writer = GraphWriter(aside=aside if size > LARGE else None)
    written = dimension_of(source.config)
    announced = source.pooling.dimension(written) if written is not None else source.dimension
    if source.outputs is None and announced != source.dimension:
        raise ModelError(
            f"the model's vectors have {announced} dimensions, {source.dimension} were announced",
            hint="config.json and the pooling's configuration are of different models",
        )
    write: Architecture = architecture.make()
    asked = ReadTensors(weights.tensors)
    weights = replace(weights, tensors=asked)
    _require_layers(source.config, len(weights.tensors))
    with limits_of_reading("config.json", size):
        if architecture.identity:
            model = written_by_plugin(write, source, weights, architecture, writer)
        else:
            model = finished(source, writer, _written(write, source.config, weights, writer))
    require_all_layers(weights, asked)
    return model
