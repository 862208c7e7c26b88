"""What exporters leave for the runtime, worked out once: nodes of constants alone, and nodes that occur twice.

torch.onnx keeps linear layers' weights as PyTorch has them and transposes them in the graph; recipes look for the matrices
themselves. Weights that the graph widens stay as they are: folded, they would be as large as what they were made of before.
"""

import math
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgepack.errors import ModelError
from edgepack.models.ort.session import open_session, session_options

SMALL = 1 << 12
"""Elements of a value that is folded whatever makes it."""
LARGEST_MADE = 1 << 28
"""Bytes of values that are made of others, beside as many as the file has."""
REARRANGING = ("Concat", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that make nothing larger than what they take; so large a weight is folded, too."""
DIFFERENT_EACH_TIME = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
NO_ARRAY = (TensorProto.STRING, TensorProto.UNDEFINED)


def folded(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The same function without such nodes, in place; the weights that come of them are initializers.

    Raises ``ModelError`` about ``name`` where these are many times what the file has.
    """
    if any(True for node in model.graph.node for _ in _nested(node)):
        return model  # a branch may take any value by its name
    _merge_twin_weights(model.graph)
    _merge_twins(model.graph)
    _fold_constants(model, name)
    return model


def _nested(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _merge_twin_weights(graph: onnx.GraphProto) -> None:
    """Leave one of small weights that are the same."""
    inputs = {each.name for each in (*graph.input, *graph.output)}
    seen: dict[tuple[int, tuple[int, ...], bytes], str] = {}
    same: dict[str, str] = {}
    kept = []
    for tensor in graph.initializer:
        if tensor.name in inputs or math.prod(tensor.dims) > SMALL or tensor.data_type in NO_ARRAY:
            kept.append(tensor)
            continue
        key = tensor.data_type, tuple(tensor.dims), numpy_helper.to_array(tensor).tobytes()
        first = seen.setdefault(key, tensor.name)
        if first == tensor.name:
            kept.append(tensor)
        else:
            same[tensor.name] = first
    del graph.initializer[:]
    graph.initializer.extend(kept)
    for node in graph.node:
        node.input[:] = [same.get(value, value) for value in node.input]


def _merge_twins(graph: onnx.GraphProto) -> None:
    """Leave one of nodes that do the same with the same values."""
    outputs = {each.name for each in graph.output}
    seen: dict[bytes, onnx.NodeProto] = {}
    same: dict[str, str] = {}
    kept = []
    for node in graph.node:
        node.input[:] = [same.get(value, value) for value in node.input]
        key = _what_it_does(node)
        first = seen.setdefault(key, node)
        if first is node or node.op_type in DIFFERENT_EACH_TIME or outputs.intersection(node.output):
            kept.append(node)
        else:
            same.update(zip(node.output, first.output, strict=True))
    del graph.node[:]
    graph.node.extend(kept)


def _what_it_does(node: onnx.NodeProto) -> bytes:
    anonymous = onnx.NodeProto()
    anonymous.CopyFrom(node)
    anonymous.name = ""
    anonymous.output[:] = ["x" if value else "" for value in node.output]
    attributes = sorted(anonymous.attribute, key=lambda each: each.name)
    del anonymous.attribute[:]
    anonymous.attribute.extend(attributes)
    return bytes(anonymous.SerializeToString(deterministic=True))


def _fold_constants(model: onnx.ModelProto, called: str) -> None:
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    inputs = {each.name for each in graph.input}
    sizes = {name: math.prod(tensor.dims) for name, tensor in weights.items() if name not in inputs}
    used = {value for node in graph.node for value in node.input} | {each.name for each in graph.output}
    constant: list[onnx.NodeProto] = []
    for node in graph.node:
        size = _size_when_constant(node, sizes) if used.intersection(node.output) else None
        if size is not None:
            constant.append(node)
            sizes.update(dict.fromkeys(node.output, size))
    if not constant:
        return
    made = {value for node in constant for value in node.output if value}
    gone = {id(node) for node in constant}
    rest = [node for node in graph.node if id(node) not in gone]
    outputs = {each.name for each in graph.output}
    wanted = sorted(made & ({value for node in rest for value in node.input} | outputs))
    try:
        values = dict(zip(wanted, _computed(model, constant, weights, wanted), strict=True))
    except Exception:  # a damaged graph: whoever runs it as a whole says why, by the file's name
        return
    size = sum(value.nbytes for value in values.values())
    if size > LARGEST_MADE + model.ByteSize():
        raise ModelError(
            f"{called} makes {size / 1e9:.1f} GB of constants that have {model.ByteSize() / 1e9:.1f}",
            hint="export the model again; masks and positions are made for the text at hand",
        )
    given = outputs & made
    del graph.node[:]
    graph.node.extend(rest)
    for name, value in values.items():
        if name in given:
            graph.initializer.append(numpy_helper.from_array(value, f"{name}.constant"))
            graph.node.append(helper.make_node("Identity", [f"{name}.constant"], [name], name=name))
        else:
            graph.initializer.append(numpy_helper.from_array(np.asarray(value, order="C"), name))


def _size_when_constant(node: onnx.NodeProto, sizes: dict[str, int]) -> int | None:
    """How many elements a node makes at most, when it is made of constants and worth folding."""
    if node.domain not in ("", "ai.onnx") or node.op_type in DIFFERENT_EACH_TIME:
        return None
    given = [value for value in node.input if value]
    if any(value not in sizes for value in given):
        return None
    most = max((sizes[value] for value in given), default=0)
    if most >= SMALL:
        return most if node.op_type in REARRANGING else None
    return most


def _computed(
    model: onnx.ModelProto,
    nodes: list[onnx.NodeProto],
    weights: dict[str, onnx.TensorProto],
    wanted: list[str],
) -> list[np.ndarray]:
    if not wanted:
        return []
    taken = {value for node in nodes for value in node.input} & set(weights)
    graph = helper.make_graph(
        nodes, "constants", [], [onnx.ValueInfoProto(name=name) for name in wanted],
        [weights[name] for name in sorted(taken)],
    )  # fmt: skip
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    options = session_options()
    values: list[np.ndarray] = open_session(alone.SerializeToString(), options).run(wanted, {})
    return values
