"""What a release of ONNX Runtime runs, as JSON; for stock_releases.py.

PYTHONPATH=UNPACKED_WHEEL python bin/stock_probe.py
"""

import json
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

DOMAINS = {"": "ai.onnx", "com.microsoft": "com.microsoft"}
INTERNAL = ("Memcpy", "_TRT")
"""In names of what no model has."""
OLDEST = 7
"""Opset that ONNX Runtime begins with."""
INFINITE = 2**31 - 1
PREFERRED = ("float", "int64", "bool", "int32", "uint8", "int8", "string")
VALUES: dict[str, Any] = {
    "FLOAT": 1.0,
    "INT": 1,
    "STRING": "a",
    "FLOATS": [1.0],
    "INTS": [1],
    "STRINGS": ["a"],
    "TENSOR": helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0]),
}


def options() -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    made.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return made


def refusal(model: onnx.ModelProto) -> str:
    """What a session says of a model; nothing where it loads."""
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options(), providers=["CPUExecutionProvider"])
    except Exception as error:
        return str(error)
    return ""


def identity(opset: int, ir: int) -> onnx.ModelProto:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "ab"]
    graph = helper.make_graph([helper.make_node("Identity", ["a"], ["b"])], "g", value[:1], value[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def newest_ir() -> int:
    said = re.search(r"max supported IR version: (\d+)", refusal(identity(13, 99)))
    assert said is not None, "it says how far it reads"
    return int(said[1])


def newest_opset(ir: int) -> int:
    """By trying; a release says no to what ONNX has not finished when it was made."""
    opset = 13
    while not refusal(identity(opset + 1, ir)):
        opset += 1
    return opset


def ort_format() -> int:
    with tempfile.TemporaryDirectory() as folder:
        made = options()
        made.optimized_model_filepath = str(Path(folder, "model.ort"))
        onnxruntime.InferenceSession(
            identity(13, 8).SerializeToString(), made, providers=["CPUExecutionProvider"]
        )
        content = Path(folder, "model.ort").read_bytes()
    at = int.from_bytes(content[:4], "little")
    table = at - int.from_bytes(content[at : at + 4], "little", signed=True)
    place = at + int.from_bytes(content[table + 4 : table + 6], "little")
    text = place + int.from_bytes(content[place : place + 4], "little")
    size = int.from_bytes(content[text : text + 4], "little")
    return int(content[text + 4 : text + 4 + size])


def has_kernel(ranges: list[tuple[int, int]], since: int) -> bool:
    """As ONNX Runtime's registry matches them."""
    return any(
        first == since or (first < since and last != INFINITE and since <= last) for first, last in ranges
    )


def one_node(schema: Any, opset: int, ir: int) -> onnx.ModelProto | None:
    """A model of one node with inputs of types that the operator takes, of no known shape."""
    allowed = {each.type_param_str: list(each.allowed_type_strs) for each in schema.type_constraints}
    inputs, values = [], []
    for index, formal in enumerate(schema.inputs[: max(schema.min_input, 1)]):
        types = allowed.get(formal.typeStr, [formal.typeStr])
        kinds = [each[7:-1] for each in types if each.startswith("tensor(")]
        kind = next((each for each in PREFERRED if each in kinds), kinds[0] if kinds else None)
        if kind is None:
            return None
        code = getattr(TensorProto, kind.upper(), None)
        if code is None:
            return None
        inputs.append(f"i{index}")
        values.append(helper.make_tensor_value_info(f"i{index}", code, None))
    needed = {
        name: VALUES[each.type.name]
        for name, each in schema.attributes.items()
        if (each.required and each.type.name in VALUES) or (schema.name == "Constant" and name == "value")
    }
    outputs = [f"o{index}" for index in range(max(schema.min_output, 1))]
    node = helper.make_node(schema.name, inputs, outputs, domain=schema.domain, **needed)
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=name) for name in outputs])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir)


def runs_as_function(schema: Any, opset: int, ir: int) -> bool:
    at = max(schema.since_version, OLDEST) if schema.domain == "" else opset
    model = one_node(schema, at, ir)
    return model is not None and not refusal(model)


def superseded(schema: Any, schemas: list[Any]) -> bool:
    """Whether another version of an operator came before the oldest opset that is run."""
    return schema.domain == "" and any(
        each.name == schema.name and each.domain == "" and schema.since_version < each.since_version <= OLDEST
        for each in schemas
    )


def main() -> None:
    ir = newest_ir()
    opset = newest_opset(ir)
    kernels = defaultdict(list)
    for kernel in state.get_all_opkernel_def():
        kernels[kernel.domain, kernel.op_name].append(tuple(kernel.version_range))
    found: dict[str, dict[str, dict[int, bool]]] = {name: {} for name in DOMAINS.values()}
    schemas = [
        each for each in state.get_all_operator_schema() if each.domain in DOMAINS and not each.deprecated
    ]
    for schema in schemas:
        if any(word in schema.name for word in INTERNAL) or superseded(schema, schemas):
            continue
        if schema.domain == "" and schema.since_version > opset:
            continue
        runs = has_kernel(kernels[schema.domain, schema.name], schema.since_version)
        runs = runs or runs_as_function(schema, opset, ir)
        found[DOMAINS[schema.domain]].setdefault(schema.name, {})[schema.since_version] = runs
    sys.stdout.write(json.dumps({"opset": opset, "ir": ir, "ort_format": ort_format(), "operators": found}))


main()
