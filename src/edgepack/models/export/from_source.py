"""Any source as one kind of ONNX model: tokens in, one normalised text vector out.

What comes out has the inputs ``input_ids``, ``attention_mask`` and ``token_type_ids`` (int64 [batch, sequence], those
that the model uses), the one output ``sentence_embedding`` (float32 [batch, dimension]) and no other opset than 17
when it was written from weights.
"""

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import onnx

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.files.store import written_beside
from edgepack.models.export.torch_export import export_with_torch
from edgepack.models.graph.adapt import adapt_graph
from edgepack.models.read.architectures import GRAPH_WRITERS
from edgepack.models.read.hub_layout import dimension_of
from edgepack.models.read.safetensors import TensorFile, open_tensors
from edgepack.records.model import ModelSource, Pooling


class Architecture(Protocol):
    """Writes the graph of one kind of model from its configuration and weights."""

    def __call__(
        self, config: Mapping[str, Any], weights: TensorFile, *, name: str, pooling: Pooling
    ) -> onnx.ModelProto: ...


LARGEST_MODEL = 2**31 - 2**20
"""Bytes of weights: protobuf's limit for one message, less room for the graph."""


def export_onnx(source: ModelSource, destination: Path) -> Path:
    """Write the full-precision model, unfused, pooling and normalisation included, to ``destination``.

    Raises ``ModelError`` for files that are damaged or contradict each other, ``UnsupportedModelError`` for an
    architecture or an operator that cannot be run.
    """
    model = _graph_of(source)
    _require_size(source, sum(len(tensor.raw_data) for tensor in model.graph.initializer))
    with written_beside(destination) as temporary:
        temporary.write_bytes(model.SerializeToString(deterministic=True))
    return destination


def _require_size(source: ModelSource, size: int) -> None:
    if size > LARGEST_MODEL:
        raise UnsupportedModelError(
            f"{source.name} has {size / 1e9:.1f} GB of weights in full precision; one ONNX file holds 2 GB",
            hint="choose a smaller model of the same family",
        )


def _graph_of(source: ModelSource) -> onnx.ModelProto:
    """By whom: its own exporter, edgepack, or PyTorch."""
    if source.onnx is not None:
        return adapt_graph(source)
    if source.weights is None or source.config.get("model_type") in (None, *GRAPH_WRITERS):
        return _from_weights(source)
    with tempfile.TemporaryDirectory() as folder:
        exported = export_with_torch(source, Path(folder, "model.onnx"))
        return adapt_graph(replace(source, onnx=exported))


def _from_weights(source: ModelSource) -> onnx.ModelProto:
    if source.weights is None:
        raise ModelError(
            f"{source.name} has neither weights (model.safetensors) nor an ONNX graph",
            hint="the folder needs model.safetensors or a .onnx file",
        )
    write = architecture_of(source.config)
    weights = open_tensors(source.weights)
    _require_size(source, 4 * sum(math.prod(tensor.shape) for tensor in weights.tensors.values()))
    written = dimension_of(source.config)
    if written is not None and source.pooling.dimension(written) != source.dimension:
        raise ModelError(
            f"the model's vectors have {source.pooling.dimension(written)} dimensions, {source.dimension} were announced",
            hint="config.json and the pooling's configuration are of different models",
        )
    return write(source.config, weights, name=source.name, pooling=source.pooling)


def architecture_of(config: Mapping[str, Any]) -> Architecture:
    """Who writes the graph of a model with this config.json; ``ModelError`` where it does not say what it is."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in GRAPH_WRITERS:
        raise ModelError(
            "config.json names no model_type", hint=f"supported are {', '.join(sorted(GRAPH_WRITERS))}"
        )
    module, _, function = GRAPH_WRITERS[kind].partition(":")
    architecture: Architecture = getattr(import_module(module), function)
    return architecture
