"""The allocation planner that looks sizes up by number."""

import pytest
from tests.support.small_archive import request

from edgepack.errors import ToolError
from edgepack.foundry.releases.ort_1_21.planner import PLANNER_PATCH

UPSTREAM = """\
  static size_t GetElementSize(const DataType& tensor_type) {
    const TypeProto& type_proto = ONNX_NAMESPACE::Utils::DataTypeUtils::ToTypeProto(tensor_type);
    MLDataType ml_data_type = DataTypeImpl::TypeFromProto(type_proto);
    const TensorTypeBase* tensor_type_base = ml_data_type->AsTensorType();
"""


def test_sizes_are_looked_up_by_number() -> None:
    made = PLANNER_PATCH.rewritten(UPSTREAM, request(), origin="ONNX Runtime 1.21")
    assert "TypeFromProto" not in made
    assert "TensorTypeFromONNXEnum(type_proto.tensor_type().elem_type())" in made
    # What is no tensor has no such number: it is refused, as upstream does.
    assert made.index("ORT_ENFORCE(type_proto.has_tensor_type())") < made.index("TensorTypeFromONNXEnum")
    assert made.splitlines()[-1] == UPSTREAM.splitlines()[-1]


def test_another_file_is_refused() -> None:
    with pytest.raises(
        ToolError, match=r"allocation_planner\.cc is not as ONNX Runtime 1\.21's: sizes of elements"
    ):
        PLANNER_PATCH.rewritten("int main() {}", request(), origin="ONNX Runtime 1.21")
