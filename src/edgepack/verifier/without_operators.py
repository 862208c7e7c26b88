"""Models without some of their operators: what is left shows which further ones a runtime lacks.

A runtime names the first node that it has no kernel for, and stops. The copies made here are only ever loaded, never
run: their other nodes' inputs come from nowhere.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepack.errors import ModelError
from edgepack.models.ort.canonical import elements, session_in

if TYPE_CHECKING:
    import onnx

_NODES, _EDGES = 8, 12
"""Where a graph's table has these (onnxruntime/core/flatbuffers/schema/ort.fbs)."""

Name = tuple[str, int]
"""Operator and the version of its registration, as ONNX Runtime's messages say them."""


def prune_ort(model: Path, destination: Path, operators: Collection[Name]) -> bool:
    """Write an ORT format model without the nodes of these operators; whether it had any.

    Raises ``ModelError`` for a file that is not in ORT format.
    """
    content = bytearray(model.read_bytes())
    try:
        removed = [_prune(content, graph, operators) for graph in list(_graphs(content))]
    except (struct.error, IndexError, TypeError, AttributeError) as error:
        raise ModelError(f"{model.name} is not a model in ORT format, or is damaged") from error
    destination.write_bytes(content)
    return any(removed)


def prune_onnx(model: Path, destination: Path, operators: Collection[str]) -> bool:
    """Write an ONNX model without the main graph's nodes of these operators, what they computed being fed instead.

    Whether it had any, and all that they computed is of a known type.
    """
    import onnx

    from edgepack.models.ort.shapes import with_shapes

    loaded = onnx.load(str(model))
    inferred = with_shapes(loaded)
    types = {info.name: info for info in (*inferred.graph.value_info, *loaded.graph.output)}
    gone = [node for node in loaded.graph.node if node.op_type in operators]
    fed = [types.get(name) for node in gone for name in node.output if name]
    if not gone or not all(info is not None and info.type.tensor_type.elem_type for info in fed):
        return False
    for node in gone:
        loaded.graph.node.remove(node)
    loaded.graph.input.extend(info for info in fed if info is not None)
    _write_onnx(loaded, destination)
    return True


def ort_format_version(model: Path) -> str:
    """The version of the ORT format that a file is in, e.g. ``"6"``; raises ``ModelError`` for other files."""
    content = model.read_bytes()
    if content[4:8] != b"ORTM":
        raise ModelError(
            f"{model.name} is not a model in ORT format", hint="`edgepack bundle` makes one, model/model.ort"
        )
    try:
        return str(session_in(content).OrtVersion().decode())
    except (struct.error, IndexError, TypeError, AttributeError) as error:
        raise ModelError(f"{model.name} is damaged", hint="convert the model again") from error


def _write_onnx(model: onnx.ModelProto, destination: Path) -> None:
    import onnx

    if model.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF:
        onnx.save(model, str(destination), save_as_external_data=True, location=f"{destination.name}.data")
    else:
        onnx.save(model, str(destination))


def _graphs(content: bytearray) -> Iterator[Any]:
    """The graph and the subgraphs of its nodes."""
    queue = [session_in(content).Model().Graph()]
    while queue:
        graph = queue.pop()
        yield graph
        for node in elements(graph, "Nodes"):
            for attribute in elements(node, "Attributes"):
                inner = [attribute.G(), *elements(attribute, "Graphs")]
                queue.extend(found for found in inner if found is not None)


def _prune(content: bytearray, graph: Any, operators: Collection[Name]) -> bool:
    """Shorten the graph's list of nodes in place, and empty that of their edges, which would name what is gone."""
    table = graph._tab
    slot = table.Offset(_NODES)
    if not slot:
        return False
    start, count = table.Vector(slot), graph.NodesLength()
    kept = [
        table.Indirect(start + 4 * index)
        for index in range(count)
        if (graph.Nodes(index).OpType().decode(), graph.Nodes(index).SinceVersion()) not in operators
    ]
    for index, node in enumerate(kept):
        place = start + 4 * index
        struct.pack_into("<I", content, place, node - place)
    struct.pack_into("<I", content, start - 4, len(kept))
    if edges := table.Offset(_EDGES):
        struct.pack_into("<I", content, table.Vector(edges) - 4, 0)
    return bool(len(kept) < count)
