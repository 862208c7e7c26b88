"""One copy of the weights: the model takes from the engine's file what lies there byte for byte.

An ONNX file may keep a weight in any file beside it, at any place (``TensorProto.external_data``), and TensorRT-RTX lays
weights of a size into its engines as they are. Each is looked for, so that what is found is right whatever TensorRT does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

SMALLEST = 1024
"""Bytes; smaller weights stay in the model, where they cost less than the words that say where they are."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """How much of a model's weights an engine holds; bytes."""

    shared: int
    kept: int


def share_weights(model: Path, engine: Path, output: Path) -> Shared:
    """Write ``output``, the model with the weights that the engine holds taken from there.

    ``output`` must lie beside a file that is called as ``engine`` is.
    """
    import onnx
    from onnx import numpy_helper

    content = engine.read_bytes()
    graph_model = onnx.load(str(model))
    shared = kept = 0
    for tensor in graph_model.graph.initializer:
        raw = numpy_helper.to_array(tensor).tobytes()
        at = content.find(raw) if len(raw) >= SMALLEST else -1
        if at < 0:
            kept += len(raw)
            continue
        shared += len(raw)
        _refer(tensor, engine.name, at, len(raw))
    output.write_bytes(graph_model.SerializeToString(deterministic=True))
    return Shared(shared=shared, kept=kept)


def _refer(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    from onnx import TensorProto

    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
