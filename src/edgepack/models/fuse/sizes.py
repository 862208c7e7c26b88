"""Arithmetic on sizes that exporters leave in graphs, worked out: what is the same for every batch becomes a constant.

Fusions look for ``Reshape`` by ``[0, 0, heads, head]``; exporters gather each of the four from ``Shape`` again. What
comes of it is observed on batches of three sizes instead of being followed through the operators.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from edgepack.models.graph.clean import without_dead_nodes
from edgepack.models.graph.editor import GraphEditor, edit
from edgepack.models.graph.observe import Values, batches, observed

SAME_AS_INPUT, REST = 0, -1


def settle_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function with constant sizes as weights; the model itself where nothing is worked out."""
    weights = {tensor.name for tensor in model.graph.initializer}
    derived = _derived_from_sizes(model, weights)
    shaping = [node for node in model.graph.node if node.op_type in ("Reshape", "Expand")]
    moving = [node for node in shaping if node.input[1] in derived]
    used = _used(model, derived)
    feeds = batches(model)
    if not feeds or not (moving or used):
        return model
    probe, asked = _with_shapes(model, moving)
    measured = [node.output[0] for node in model.graph.node if node.op_type == "Shape"]
    seen = observed(probe, sorted({*used, *asked, *measured}), feeds)
    constants = {name: seen[0][name] for name in used if _is_same([each[name] for each in seen])}
    constants |= {name: row for name in used if (row := _only_row(model, name, seen)) is not None}
    settled = _rewritten(model, constants, {id(node) for node in moving}, seen)
    return _measured_at_the_input(settled, seen, [feed["input_ids"].shape for feed in feeds])


def _derived_from_sizes(model: onnx.ModelProto, weights: set[str]) -> set[str]:
    """Values that depend on nothing but the inputs' sizes."""
    derived: set[str] = set()
    for node in model.graph.node:
        given = [value for value in node.input if value]
        from_sizes = given and all(value in derived or value in weights for value in given)
        if node.op_type in ("Shape", "Size") or (from_sizes and any(value in derived for value in given)):
            derived.update(value for value in node.output if value)
    return derived


def _used(model: onnx.ModelProto, derived: set[str]) -> list[str]:
    """Those of them that other values are made with."""
    taken = {
        value
        for node in model.graph.node
        if not derived.issuperset(node.output)
        for value in node.input
        if value in derived
    }
    return sorted(taken)


def _with_shapes(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]
) -> tuple[onnx.ModelProto, list[str]]:
    """The model with the shapes of what these nodes take and make, and what those are called."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    values = sorted({value for node in nodes for value in (node.input[0], node.output[0])})
    names = [_shape_of(value) for value in values]
    probe.graph.node.extend(
        helper.make_node("Shape", [value], [name]) for value, name in zip(values, names, strict=True)
    )
    return probe, names


def _shape_of(value: str) -> str:
    return f"{value}.observed_shape"


def _is_same(values: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(values[0], each) for each in values[1:])


def _only_row(model: onnx.ModelProto, value: str, seen: Sequence[Values]) -> np.ndarray | None:
    """The one vector that a value holds for every token, as where all have the same type; it is to be added."""
    takers = [node for node in model.graph.node if value in node.input]
    rows = np.concatenate([each[value].reshape(-1, max(each[value].shape[-1:], default=1)) for each in seen]) if all(
        each[value].ndim == 3 and each[value].dtype == np.float32 for each in seen) else np.zeros((0, 1))  # fmt: skip
    if not len(rows) or any(node.op_type != "Add" for node in takers) or (rows != rows[0]).any():
        return None
    row: np.ndarray = rows[0]
    return row


def _measured_at_the_input(
    model: onnx.ModelProto, seen: Sequence[Values], sizes: Sequence[tuple[int, ...]]
) -> onnx.ModelProto:
    """Sizes of inner values taken from ``input_ids``: what is made of them depends on no layer any more."""
    inputs = {each.name for each in model.graph.input}
    # Of a part of a shape ONNX Runtime's own inference makes nothing.
    inner = [
        node
        for node in model.graph.node
        if node.op_type == "Shape" and (node.input[0] not in inputs or node.attribute)
    ]
    wanted = {id(node): _as_input([each[node.output[0]] for each in seen], sizes) for node in inner}
    if not any(wanted.values()):
        return model
    editor = edit(model)
    numbers = sorted({-place for places in wanted.values() for place in places or () if place < 0})
    editor.add("Shape", ["input_ids"], ["sizes.input"], name="sizes.input")
    every = editor.weight("sizes.numbers", np.array(numbers, np.int64))
    editor.add("Concat", ["sizes.input", every], ["sizes.every"], name="sizes.every", axis=0)
    for node in editor.take_nodes():
        places = wanted.get(id(node))
        if not places:
            editor.keep(node)
            continue
        index = [place if place >= 0 else 2 + numbers.index(-place) for place in places]
        name = editor.weight(f"sizes.index_{'_'.join(map(str, index))}", np.array(index, np.int64))
        editor.add(
            "Gather", ["sizes.every", name], list(node.output), name=node.name or node.output[0], axis=0
        )
    return without_dead_nodes(editor.finish())


def _as_input(shapes: Sequence[np.ndarray], sizes: Sequence[tuple[int, ...]]) -> list[int] | None:
    """For each size of a shape the input's axis that has it too, or the number itself, made negative."""
    places = []
    for axis in range(len(shapes[0])):
        made = [int(shape[axis]) for shape in shapes]
        same = next((at for at in (0, 1) if made == [size[at] for size in sizes]), None)
        if same is None and len(set(made)) > 1:
            return None
        places.append(same if same is not None else -made[0])
    return places


def _rewritten(
    model: onnx.ModelProto, constants: Values, moving: set[int], seen: Sequence[Values]
) -> onnx.ModelProto:
    editor = edit(model)
    same: dict[str, str] = {}
    outputs = {each.name for each in model.graph.output}
    names = {name: editor.weight(f"{name}.settled", value) for name, value in constants.items()}
    changed = bool(names)
    for node in editor.take_nodes():
        kept = onnx.NodeProto()
        kept.CopyFrom(node)
        kept.input[:] = [names.get(value, same.get(value, value)) for value in node.input]
        if id(node) in moving:
            before, after = (
                [each[_shape_of(name)] for each in seen] for name in (node.input[0], node.output[0])
            )
            if len(before[0]) == len(after[0]) and all(map(np.array_equal, before, after)):
                if node.output[0] not in outputs:
                    same[node.output[0]], changed = kept.input[0], True
                    continue
            elif node.op_type == "Reshape" and (sizes := _sizes(before, after)) is not None:
                _reshape(editor, kept, sizes)
                changed = True
                continue
        editor.keep(kept)
    return without_dead_nodes(editor.finish()) if changed else model


def _sizes(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> list[int] | None:
    """Sizes for a Reshape between these shapes; ``None`` where more than one size cannot be said."""
    sizes = []
    for axis in range(len(after[0])):
        made = [int(shape[axis]) for shape in after]
        if len(set(made)) == 1:
            sizes.append(made[0])
        elif axis < len(before[0]) and made == [int(shape[axis]) for shape in before]:
            sizes.append(SAME_AS_INPUT)
        else:
            sizes.append(REST)
    return sizes if sizes.count(REST) <= 1 else None


def _reshape(editor: GraphEditor, node: onnx.NodeProto, sizes: list[int]) -> None:
    name = editor.weight(f"sizes.{'_'.join(map(str, sizes))}", np.array(sizes, np.int64))
    editor.add("Reshape", [node.input[0], name], list(node.output), name=node.name or node.output[0])
