"""Loading other exporters' graphs: whole, in an opset that ONNX Runtime runs, without what they say about their author's machine."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper, version_converter

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.graph.clean import all_graphs, declare_domain
from edgepack.models.graph.onnx_file import read_graph, require_external_files
from edgepack.models.graph.precision import quantized_by
from edgepack.models.graph.widen import is_half, widen
from edgepack.models.graph.writer import IR_VERSION, OPSET
from edgepack.models.lower.folding import folded
from edgepack.models.lower.opset import lower_opset
from edgepack.models.ort.memory import limited_memory, memory_to_try
from edgepack.models.ort.processor_time import Allowance

OLDEST_OPSET = 13
"""The first in which the axes of Squeeze, Unsqueeze and ReduceSum are inputs, as our nodes have them."""
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
LARGEST = 2**31 - 1
"""Bytes; protobuf's limit for one message."""


def cleaned(file: Path, *, lower: bool = True) -> onnx.ModelProto:
    """A graph with its external data read in, local functions inlined, in an opset that ONNX Runtime runs, constants as
    initializers, and none in half precision. Without ``lower`` it stays in its own opset, for a newer release.

    Raises ``ModelError`` when it is no ONNX model or its external data are missing or cut short, and
    ``UnsupportedModelError`` when it is too large for one file, makes large constants of little, or is of an opset that
    cannot be converted.
    """
    read_graph(file)
    external = require_external_files(file)
    if sum(path.stat().st_size for path in (file, *external)) > LARGEST:
        raise UnsupportedModelError(
            f"{file.name} is larger than 2 GB, which no ONNX file without external data can be",
            hint="use the model's safetensors, or a smaller model",
        )
    model = _load(file)
    size = model.ByteSize()
    with limited_memory(file.name, memory_to_try(size), Allowance(size)):
        return _cleaned(model, file, lower=lower)


def _cleaned(model: onnx.ModelProto, file: Path, *, lower: bool) -> onnx.ModelProto:
    declare_domain(model)
    _require_one_opset(model, file)
    _require_numbers(model, file)
    if model.functions:
        model = _inlined(model, file)
    model = _in_known_opset(model, file)
    if lower:
        model = lower_opset(model, file)
        model.ir_version = min(model.ir_version, IR_VERSION)
    _strip_notes(model)
    _constants_to_initializers(model.graph)
    if is_half(model):
        widen(model)
    if lower:
        # What another tool has quantized is taken as it is: folded, its integers would become floats again.
        return model if quantized_by(model) else folded(model, file.name)
    _name_nodes(model)
    return model


def _load(file: Path) -> onnx.ModelProto:
    try:
        return onnx.load(str(file))
    except Exception as error:  # external data cut short: several classes, none of them documented
        raise ModelError(
            f"{file.name} cannot be read with its external data: {error}",
            hint="a file is damaged or was not downloaded whole; fetch the model again",
        ) from error


def _inlined(model: onnx.ModelProto, file: Path) -> onnx.ModelProto:
    import onnx.inliner

    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # the inliner's own class is not importable
        raise ModelError(
            f"{file.name} has functions that cannot be inlined: {error}", hint="export it again"
        ) from error


def _require_one_opset(model: onnx.ModelProto, file: Path) -> None:
    """Merging tools have written graphs of two opsets, of which every reader takes another one."""
    versions: dict[str, set[int]] = {}
    for each in model.opset_import:
        versions.setdefault(each.domain or "ai.onnx", set()).add(each.version)
    for domain, found in versions.items():
        if len(found) > 1:
            raise ModelError(
                f"{file.name} requires several opsets of {domain}: {', '.join(map(str, sorted(found)))}",
                hint=f"export the model again with opset {OPSET} alone",
            )


def _require_numbers(model: onnx.ModelProto, file: Path) -> None:
    """Raise ``ModelError`` for a weight that is not all there or not a number; infinite ones occur in masks."""
    constants = [each.t for node in model.graph.node for each in node.attribute if each.HasField("t")]
    for tensor in constants:
        _values(tensor, file)
    for tensor in model.graph.initializer:
        values = _values(tensor, file)
        if values is not None and tensor.data_type in FLOATS and np.isnan(values).any():
            raise ModelError(
                f"{file.name}: {tensor.name} holds NaN",
                hint="the model was damaged in training or conversion; get it again",
            )


def _values(tensor: onnx.TensorProto, file: Path) -> npt.NDArray[Any] | None:
    """A tensor's values; ``None`` for a kind of number that is none, which whoever runs the graph refuses."""
    try:
        values: npt.NDArray[Any] = numpy_helper.to_array(tensor)
    except ValueError as error:  # more or fewer bytes than its shape says
        raise ModelError(
            f"{file.name} cannot be read with its external data: {tensor.name}: {error}",
            hint="a file is damaged or was not downloaded whole; fetch the model again",
        ) from error
    except (KeyError, TypeError):
        return None
    return values


def _in_known_opset(model: onnx.ModelProto, file: Path) -> onnx.ModelProto:
    opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 1)
    if opset >= OLDEST_OPSET:
        return model

    try:
        return version_converter.convert_version(model, OPSET)
    except Exception as error:  # the converter's own class is not importable
        raise UnsupportedModelError(
            f"{file.name} is of opset {opset} and cannot be converted to {OPSET}: {error}",
            hint=f"export the model with opset {OPSET}",
        ) from error


def _name_nodes(model: onnx.ModelProto) -> None:
    """Passes call what they add after its node; fusion, which names nodes otherwise, does not know newer opsets."""
    for graph in all_graphs(model.graph):
        for node in graph.node:
            node.name = node.name or node.output[0]


def _strip_notes(model: onnx.ModelProto) -> None:
    """Exporters write stack traces with their author's paths into graphs."""
    model.doc_string = ""
    del model.metadata_props[:]
    for graph in all_graphs(model.graph):
        graph.doc_string = ""
        del graph.metadata_props[:], graph.value_info[:]
        for node in graph.node:
            node.doc_string = ""
            del node.metadata_props[:]


def _constants_to_initializers(graph: onnx.GraphProto) -> None:
    """Weights that come out of Constant nodes become initializers, where passes look for them."""
    nodes = []
    for node in graph.node:
        value = next((each.t for each in node.attribute if each.name == "value"), None)
        if node.op_type == "Constant" and value is not None and node.output:
            tensor = graph.initializer.add()
            tensor.CopyFrom(value)
            tensor.name = node.output[0]
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
