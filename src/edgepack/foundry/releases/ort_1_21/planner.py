"""The allocation planner, without making a type's name anew for every two buffers that it compares.

To see whether a buffer can be used again, upstream compares sizes of elements, and looks each of them up by a string that
it puts together: more than half of the time in which a session opens in WebAssembly.
"""

import re

from edgepack.foundry.patch import ALLOCATION_PLANNER, Patch

PLANNER = "core/framework/allocation_planner.cc"
_BY_NAME = "MLDataType ml_data_type = DataTypeImpl::TypeFromProto(type_proto);"
_BY_NUMBER = (
    "ORT_ENFORCE(type_proto.has_tensor_type());\n"
    "    MLDataType ml_data_type = DataTypeImpl::TensorTypeFromONNXEnum(type_proto.tensor_type().elem_type());"
)


PLANNER_PATCH = Patch(
    name="sizes of elements by number",
    file=PLANNER,
    units=f"*/{PLANNER}",
    must_find=(re.compile(re.escape(_BY_NAME)),),
    rewrite=lambda source, _: source.replace(_BY_NAME, _BY_NUMBER),
    change=f"{_BY_NAME} -> {_BY_NUMBER}",
    trim=ALLOCATION_PLANNER,
    gives="speed",
)
