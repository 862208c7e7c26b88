"""Weights of a large model: in a file beside the graph, read when they are asked for; that of more than 2 GB no single file can hold.

A graph in memory names that file by its whole path, which sessions of ONNX Runtime follow; a graph on disk by its name, so that its
folder can move.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

LARGEST_MODEL = 2**31 - 2**20
"""Bytes of weights in one file: protobuf's limit for one message, less room for the graph."""
LARGE = 1 << 29
"""Bytes of weights from which on they are set aside, though one file could hold them: passes copy graphs, and each session would copy the
weights twice. EmbeddingGemma, 1.2 GB, took 13 GB."""
SMALLEST = 1 << 16
"""Bytes from which on a weight is set aside."""
ALIGNMENT = 64


def set_aside(file: Path, name: str, array: npt.NDArray[Any]) -> onnx.TensorProto:
    """An initializer whose values stand at the end of ``file``."""
    with file.open("ab") as stream:
        stream.write(bytes(-stream.tell() % ALIGNMENT))
        start = stream.tell()
        array.tofile(stream)
    tensor = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    said = {"location": str(file.absolute()), "offset": str(start), "length": str(array.nbytes)}
    for key, value in said.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def is_aside(tensor: onnx.TensorProto) -> bool:
    """Whether an initializer's values are in a file of their own."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def values_of(tensor: onnx.TensorProto) -> npt.NDArray[Any]:
    """An initializer's values, wherever they are; those in a file are mapped, and must not be written to."""
    if not is_aside(tensor):
        values: npt.NDArray[Any] = numpy_helper.to_array(tensor)
        return values
    said = {entry.key: entry.value for entry in tensor.external_data}
    kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return np.asarray(
        np.memmap(said["location"], kind, "r", offset=int(said["offset"]), shape=tuple(tensor.dims))
    )


def weight_bytes(model: onnx.ModelProto) -> int:
    """Bytes of a model's initializers, those set aside, too."""
    return sum(
        int(next(entry.value for entry in tensor.external_data if entry.key == "length"))
        if is_aside(tensor)
        else tensor.ByteSize()
        for tensor in model.graph.initializer
    )


def gathered(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all its weights inside; it must be small enough."""
    if not any(map(is_aside, model.graph.initializer)):
        return model
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for tensor in whole.graph.initializer:
        if is_aside(tensor):
            tensor.CopyFrom(numpy_helper.from_array(values_of(tensor), tensor.name))
    return whole


def gathered_where_they_fit(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as code of others takes it, which reads no weights from a path; one that is too large stays as it is."""
    return gathered(model) if weight_bytes(model) <= LARGEST_MODEL else model


def load_graph(file: Path) -> onnx.ModelProto:
    """A graph that ``graph_on_disk`` is of: what stands beside it stays there."""
    model = onnx.load(str(file), load_external_data=False)
    _relocate(model, lambda location: str(file.absolute().parent / location))
    return model


def graph_on_disk(model: onnx.ModelProto, beside: str) -> bytes:
    """A graph as it is stored; what was set aside is in the file ``beside`` it."""
    if not any(map(is_aside, model.graph.initializer)):
        return bytes(model.SerializeToString(deterministic=True))
    stored = onnx.ModelProto()
    stored.CopyFrom(model)
    _relocate(stored, lambda _: beside)
    return bytes(stored.SerializeToString(deterministic=True))


def _relocate(model: onnx.ModelProto, place: Callable[[str], str]) -> None:
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = place(entry.value)
