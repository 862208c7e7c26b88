"""The allocation planner, without making a type's name anew for every two buffers that it compares.

To see whether a buffer can be used again, upstream compares sizes of elements, and looks each of them up by a string that
it puts together: more than half of the time in which a session opens in WebAssembly.
"""

from __future__ import annotations

from dataclasses import replace

from edgepack.errors import ToolError
from edgepack.foundry.compile.archive import KernelArchive, source_of
from edgepack.foundry.compile.generate import Reduction, replaced

PLANNER = "core/framework/allocation_planner.cc"
_BY_NAME = "MLDataType ml_data_type = DataTypeImpl::TypeFromProto(type_proto);"
_BY_NUMBER = (
    "ORT_ENFORCE(type_proto.has_tensor_type());\n"
    "    MLDataType ml_data_type = DataTypeImpl::TensorTypeFromONNXEnum(type_proto.tensor_type().elem_type());"
)
CHANGE = f"{_BY_NAME} -> {_BY_NUMBER}"
"""Told to what keeps runtimes."""


def quick_planner(source: str) -> str:
    """``allocation_planner.cc`` that finds an element's size by its type's number. Raises ``ToolError`` for another file."""
    if source.count(_BY_NAME) != 1:
        raise ToolError(f"{PLANNER} is not as ONNX Runtime 1.21's")
    return source.replace(_BY_NAME, _BY_NUMBER)


def with_quick_planner(archive: KernelArchive, reduction: Reduction) -> Reduction:
    """The reduction with it; what is planned is the same."""
    name = next(name for name in archive.units if name.endswith(f"/{PLANNER}"))
    text = quick_planner(source_of(archive, archive.units[name]).read_text())
    return replace(reduction, overrides={**reduction.overrides, name: replaced(archive, name, PLANNER, text)})
