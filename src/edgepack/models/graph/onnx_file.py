"""A ready-made ONNX file, looked at from outside: is it one, what does it need beside it, how long are its vectors?"""

from collections.abc import Iterator, Mapping
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Any

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.graph.bounded import require_bounded
from edgepack.models.read.documents import is_hidden, require_content, require_own

MADE_FOR: Mapping[str, str] = {
    "com.microsoft.nchwc": "x86 processors",
    "com.ms.internal.nhwc": "one execution provider",
    "com.microsoft.dml": "DirectML",
    "trt.plugins": "TensorRT",
    "EPContext": "one execution provider",
}
"""Domains and operators that ONNX Runtime's optimizers write for one kind of hardware, and which."""


def read_graph(path: Path) -> Any:
    """The ``ModelProto`` without its external data.

    Raises ``ModelError`` when the file is not ONNX, ``UnsupportedModelError`` when nothing says that it ends.
    """
    import onnx

    require_content(path)
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's DecodeError, which has no types to import
        raise _not_onnx(path) from error
    if not model.graph.node or not model.graph.output or not _is_text(model):
        raise _not_onnx(path)
    require_bounded(model, path.name)
    return model


def _is_text(message: Any) -> bool:
    """Whether all strings of a message are UTF-8; protobuf gives others as bytes, and libraries fail on them one by one."""
    for field, value in message.ListFields():
        values = value if hasattr(value, "__len__") and not isinstance(value, str | bytes) else [value]
        if field.type == field.TYPE_STRING and any(isinstance(each, bytes) for each in values):
            return False
        if field.type == field.TYPE_MESSAGE and not all(_is_text(each) for each in values):
            return False
    return True


def tensors_of(message: Any) -> Iterator[Any]:
    """All tensors of a message, wherever it keeps them: initializers, sparse ones, attributes, branches, functions."""
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for each in value if hasattr(value, "__len__") else [value]:
            if each.DESCRIPTOR.name == "TensorProto":
                yield each
            else:
                yield from tensors_of(each)


def _not_onnx(path: Path) -> ModelError:
    return ModelError(
        f"{path.name} is not an ONNX model", hint="it may be damaged or not downloaded whole; fetch it again"
    )


def external_locations(path: Path) -> tuple[str, ...]:
    """The files that hold an ONNX file's large tensors, sorted, relative to its folder.

    Raises ``ModelError`` when one lies outside that folder.
    """
    locations = {
        entry.value
        for tensor in tensors_of(read_graph(path))
        for entry in tensor.external_data
        if entry.key == "location"
    }
    for location in locations:
        if is_hidden(PurePosixPath(location)) or PurePosixPath(location).is_absolute():
            raise ModelError(
                f"{path.name} points outside the model's folder: {location}", hint="put its weights beside it"
            )
    return tuple(sorted(locations))


def require_external_files(path: Path) -> tuple[Path, ...]:
    """Paths of them; raises ``ModelError`` when one is missing, or lies elsewhere."""
    for location in external_locations(path):
        try:
            is_there = (path.parent / location).is_file()
        except OSError:  # a name that no file can have
            is_there = False
        if not is_there:
            raise ModelError(
                f"{path.name} keeps its weights in {location}, which is not beside it",
                hint="copy both files into one folder",
            )
        require_own(path.parent, [escape(location)])
    return tuple(path.parent / location for location in external_locations(path))


def precision_of_file(path: Path) -> str:
    """Precision of a graph's weights, e.g. ``int8`` for one that was quantized already.

    Raises ``UnsupportedModelError`` for a graph that was optimized for one kind of hardware.
    """
    from edgepack.models.graph.precision import precision_of

    graph = read_graph(path)
    _require_portable(graph, path)
    return precision_of(graph)


def _require_portable(model: Any, path: Path) -> None:
    for node in model.graph.node:
        made_for = MADE_FOR.get(node.domain) or MADE_FOR.get(node.op_type)
        if made_for is not None:
            raise UnsupportedModelError(
                f"{path.name} was optimized for {made_for} ({node.domain or 'ai.onnx'}:{node.op_type}) and runs only there",
                hint="use the original file: edgepack optimizes for each target itself",
            )


def vocabulary_rows(path: Path) -> int | None:
    """Rows of the table that ``input_ids`` picks from, or ``None`` where the graph does not show it."""
    from edgepack.models.graph.sample_inputs import table_rows

    return min(table_rows(read_graph(path)), default=None)


def output_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Name → shape of what the graph gives; 0 where a size is free."""
    return {
        each.name: tuple(int(dim.dim_value) for dim in each.type.tensor_type.shape.dim)
        for each in read_graph(path).graph.output
    }


def output_dimension(path: Path) -> int | None:
    """The last axis of the graph's first output; ``None`` where the file does not say it."""
    shape = read_graph(path).graph.output[0].type.tensor_type.shape
    dimension = int(shape.dim[-1].dim_value) if shape.dim else 0
    return dimension if dimension > 0 else None
