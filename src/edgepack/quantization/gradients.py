"""Gradients of a model's vectors, backwards through the operators of fused encoders; the values are ONNX Runtime's.

Reverse mode, as https://arxiv.org/abs/1502.05767 has it. The texts of a run are of one length, so that nothing is masked. Weights
have no gradients here: callers make what they need of those of the values that weights meet.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from edgepack.errors import UnsupportedModelError
from edgepack.models.graph.editor import edit
from edgepack.models.graph.sample_inputs import Feed
from edgepack.quantization.arrays import Floats
from edgepack.quantization.observers import observed

Values = Mapping[str, Floats]
Back = Iterable[tuple[str, Floats]]
"""Inputs of a node, and the gradient of each."""
HINT = "other recipes round without gradients, e.g. --recipe int8-smallest"
NORMAL_HEIGHT = np.float32(1 / np.sqrt(2 * np.pi))
TANH_SLOPE, TANH_CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)


@dataclass(frozen=True, kw_only=True)
class Differentiable:
    """A model of whose vectors gradients by some values can be asked for."""

    model: onnx.ModelProto
    path: tuple[onnx.NodeProto, ...]
    """Nodes between these values and the vectors, in the graph's order."""
    live: frozenset[str]
    """These values, and those that the path makes."""
    constants: Values
    output: str
    observed: tuple[str, ...]
    """What every run has to tell."""


def differentiable(
    model: onnx.ModelProto, by: Iterable[str], *, beside: Iterable[str] = ()
) -> Differentiable:
    """The model, prepared for gradients by these values; runs tell of those ``beside``, too. Raises ``UnsupportedModelError`` where there is an operator without a rule between
    them and the vectors.
    """
    editor = edit(model)
    sources, output = frozenset(by), model.graph.output[0].name
    live, nodes = set(sources), []
    for node in editor.take_nodes():
        if live.intersection(node.input):
            live.update(filter(None, node.output))
            nodes.append(node)
    needed = {output}
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(live.intersection(node.input))
    path = tuple(node for node in nodes if needed.intersection(node.output))
    constants = {name: editor.array(name) for node in path for name in node.input if name in editor.weights}
    for node in path:
        if node.op_type not in RULES or _is_another(node, constants):
            raise UnsupportedModelError(f"the operator {node.op_type} has no gradient here", hint=HINT)
    live &= needed
    numbers = set(beside) | {
        name
        for node in path
        for place, name in enumerate(node.input)
        if name and place not in INTEGERS.get(node.op_type, ())
    }
    return Differentiable(
        model=model,
        path=path,
        live=frozenset(live),
        constants=constants,
        output=output,
        observed=tuple(sorted(live | numbers - constants.keys())),
    )


def runs(of: Differentiable, feeds: Iterable[Feed]) -> Iterator[Values]:
    """The values of every run, to be handed to ``gradients``."""
    return observed(of.model, of.observed, feeds)


def gradients(of: Differentiable, values: Values, probe: Floats) -> Values:
    """The gradients of ``(vectors * probe).sum()`` by all values on the way to the vectors."""
    known = {**of.constants, **values}
    found: dict[str, Floats] = {of.output: probe}
    for node in reversed(of.path):
        if not any(name in found for name in node.output):
            continue
        for name, gradient in RULES[node.op_type](node, known, found):
            if name in of.live:
                found[name] = found[name] + gradient if name in found else gradient
    return found


def _is_another(node: onnx.NodeProto, constants: Values) -> bool:
    """Whether a node is of a form that the rule of its operator does not know."""
    if node.op_type == "Gather":
        return node.input[1] not in constants
    if node.op_type == "Slice":
        return len(node.input) < 4
    if node.op_type == "RotaryEmbedding":
        odd = any(_attribute(node, name, 0) for name in ("interleaved", "rotary_embedding_dim"))
        return odd or constants.get(node.input[1], np.zeros(0)).size != 1
    return False


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)


def _like(gradient: Floats, value: Floats) -> Floats:
    """Summed up over what was broadcast."""
    more = gradient.ndim - value.ndim
    wide = tuple(range(more)) + tuple(
        more + axis for axis, size in enumerate(value.shape) if size == 1 and gradient.shape[more + axis] > 1
    )
    summed: Floats = gradient.sum(axis=wide).reshape(value.shape) if wide else gradient
    return summed


def _add(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    gradient = found[node.output[0]]
    return [(name, _like(gradient, known[name])) for name in node.input if name in known]


def _subtract(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    gradient = found[node.output[0]]
    signed = zip(node.input, (gradient, -gradient), strict=True)
    return [(name, _like(each, known[name])) for name, each in signed if name in known]


def _multiply(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    (one, other), gradient = node.input, found[node.output[0]]
    return [
        (one, _like(gradient * known[other], known[one])),
        (other, _like(gradient * known[one], known[other])),
    ]


def _divide(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    (one, other), gradient = node.input, found[node.output[0]] / known[node.input[1]]
    return [
        (one, _like(gradient, known[one])),
        (other, _like(-gradient * known[one] / known[other], known[other])),
    ]


def _larger(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    made, gradient = np.maximum(*(known[name] for name in node.input)), found[node.output[0]]
    return [(name, _like(gradient * (known[name] == made), known[name])) for name in node.input]


def _root(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    return [(node.input[0], found[node.output[0]] / (2 * known[node.output[0]]))]


def _product(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    (one, other), gradient = node.input, found[node.output[0]]
    if known[other].ndim == 2:
        # A matrix of weights has no gradient of its own.
        return [(one, gradient @ known[other].T)]
    return [
        (one, _like(gradient @ known[other].swapaxes(-1, -2), known[one])),
        (other, _like(known[one].swapaxes(-1, -2) @ gradient, known[other])),
    ]


def _same_numbers(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    return [(node.input[0], found[node.output[0]].reshape(known[node.input[0]].shape))]


def _repeated(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    return [(node.input[0], _like(found[node.output[0]], known[node.input[0]]))]


def _transpose(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    gradient = found[node.output[0]]
    order = _attribute(node, "perm", range(gradient.ndim)[::-1])
    return [(node.input[0], gradient.transpose(np.argsort(order)))]


def _kept(node: onnx.NodeProto, known: Values) -> Any:
    """Sizes of what a reduction makes, with 1 for each axis that it takes."""
    value = known[node.input[0]]
    axes = known[node.input[1]] if len(node.input) > 1 else _attribute(node, "axes", range(value.ndim))
    kept = np.ones(value.ndim, int) * value.shape
    kept[np.array(list(axes), int)] = 1
    return kept


def _sum(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    value, gradient = known[node.input[0]], found[node.output[0]]
    kept = _kept(node, known)
    spread = np.broadcast_to(gradient.reshape(kept), value.shape)
    return [
        (
            node.input[0],
            spread * np.float32(kept.prod() / value.size) if node.op_type == "ReduceMean" else spread,
        )
    ]


def _largest(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    """ReduceMax: what was not the largest has no part in it."""
    value, made, gradient = known[node.input[0]], known[node.output[0]], found[node.output[0]]
    kept = _kept(node, known)
    return [(node.input[0], gradient.reshape(kept) * (value == made.reshape(kept)))]


def _chosen(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    is_first, gradient = known[node.input[0]], found[node.output[0]]
    parts = (gradient * is_first, gradient * ~is_first.astype(bool))
    return [(name, _like(part, known[name])) for name, part in zip(node.input[1:], parts, strict=True)]


def _gather(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    value, axis, picked = known[node.input[0]], _attribute(node, "axis", 0), known[node.input[1]]
    spread, gradient = np.zeros_like(value), found[node.output[0]]
    place = (slice(None),) * (axis % value.ndim)
    np.add.at(spread, (*place, picked.astype(int)), gradient)
    return [(node.input[0], spread)]


def _cut(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    value, gradient = known[node.input[0]], found[node.output[0]]
    starts, ends, axes, *steps = (known[name].tolist() for name in node.input[1:])
    place = [slice(None)] * value.ndim
    for axis, *bounds in zip(axes, starts, ends, *steps, strict=True):
        place[axis] = slice(*bounds)
    spread = np.zeros_like(value)
    spread[tuple(place)] = gradient
    return [(node.input[0], spread)]


def _normalized(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    """LayerNormalization and its kin: of a sum where they skip, without the mean where they are simplified."""
    skips, simple = node.op_type.startswith("Skip"), "Simplified" in node.op_type
    terms = list(node.input[:2]) if skips else [node.input[0]]
    bias = node.input[3 if simple else 4 :][:1] if skips else []
    total = sum(known[name] for name in [*terms, *bias])
    assert isinstance(total, np.ndarray)
    weight = known[node.input[2 if skips else 1]]
    centred = total if simple else total - total.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(
        (centred**2).mean(axis=-1, keepdims=True) + np.float32(_attribute(node, "epsilon", 1e-5))
    )
    shares = centred / deviation
    by_total = np.zeros_like(total)
    if node.output[0] in found:
        by_shares = found[node.output[0]] * weight
        by_total = by_shares - shares * (by_shares * shares).mean(axis=-1, keepdims=True)
        if not simple:
            by_total -= by_shares.mean(axis=-1, keepdims=True)
        by_total /= deviation
    for name in node.output[1:]:
        if name in found:
            by_total = by_total + found[name]
    return [(name, by_total) for name in terms]


def _rotated(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    """Pairs of numbers of each head, turned by an angle for each place; back by the same."""
    gradient, first = found[node.output[0]], int(known[node.input[1]].item())
    batch, tokens, _ = gradient.shape
    cosine, sine = (known[name][first : first + tokens, None] for name in node.input[2:])
    one, other = np.moveaxis(gradient.reshape(batch, tokens, -1, 2, cosine.shape[-1]), -2, 0)
    turned = np.stack([one * cosine + other * sine, other * cosine - one * sine], axis=-2)
    return [(node.input[0], turned.reshape(gradient.shape))]


def _activated(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    """Functions of each number by itself, some with a bias that is added first."""
    value, made, gradient = known[node.input[0]], known[node.output[0]], found[node.output[0]]
    kind = node.op_type
    if kind == "Relu":
        slope = (made > 0).astype(np.float32)
    elif kind == "Tanh":
        slope = 1 - made**2
    elif kind == "Sigmoid":
        slope = made * (1 - made)
    else:
        value = value + known[node.input[1]] if len(node.input) > 1 and node.input[1] else value
        # Both are x times a share; the share is what was made of x, by x.
        share = np.divide(made, value, out=np.full_like(value, 0.5), where=np.abs(value) > 1e-4)
        if kind == "FastGelu":
            steep = 2 * TANH_SLOPE * (1 + 3 * TANH_CUBE * value**2)
            slope = share + value * share * (1 - share) * steep
        else:
            slope = share + value * np.exp(-0.5 * value**2) * NORMAL_HEIGHT
    return [(node.input[0], gradient * slope)]


def _attention(node: onnx.NodeProto, known: Values, found: Values) -> Back:
    """MultiHeadAttention over texts of one length: nothing is masked."""
    heads = int(_attribute(node, "num_heads", 1))
    together = known[node.input[3]] if len(node.input) > 3 and node.input[3] else np.zeros(3, np.float32)
    biases: list[Floats] = np.split(together, 3)
    query, key, value = (
        _by_head(known[name] + bias, heads) for name, bias in zip(node.input[:3], biases, strict=True)
    )
    scale = np.float32(_attribute(node, "scale", 0.0) or query.shape[-1] ** -0.5)
    scores = query @ key.swapaxes(-1, -2) * scale
    added = node.input[5] if len(node.input) > 5 else ""
    if added:
        scores = scores + known[added]
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares = scores / scores.sum(axis=-1, keepdims=True)
    gradient = _by_head(found[node.output[0]], heads)
    by_shares = gradient @ value.swapaxes(-1, -2)
    by_sums = shares * (by_shares - (by_shares * shares).sum(axis=-1, keepdims=True))
    by_scores = by_sums * scale
    parts = (by_scores @ key, by_scores.swapaxes(-1, -2) @ query, shares.swapaxes(-1, -2) @ gradient)
    beside = [(added, _like(by_sums, known[added]))] if added else []
    return [*((name, _together(part)) for name, part in zip(node.input[:3], parts, strict=True)), *beside]


def _by_head(values: Floats, heads: int) -> Floats:
    """[batch, tokens, hidden] as [batch, heads, tokens, hidden of one]."""
    batch, tokens, hidden = values.shape
    return values.reshape(batch, tokens, heads, hidden // heads).swapaxes(1, 2)


def _together(values: Floats) -> Floats:
    batch, _, tokens, _ = values.shape
    return values.swapaxes(1, 2).reshape(batch, tokens, -1)


NORMS = (
    "LayerNormalization",
    "SkipLayerNormalization",
    "SimplifiedLayerNormalization",
    "SkipSimplifiedLayerNormalization",
)
RULES: Mapping[str, Callable[[onnx.NodeProto, Values, Values], Back]] = {
    "Add": _add,
    "Sub": _subtract,
    "Mul": _multiply,
    "Div": _divide,
    "Max": _larger,
    "Sqrt": _root,
    "MatMul": _product,
    "Gather": _gather,
    "Slice": _cut,
    "ReduceMax": _largest,
    "Where": _chosen,
    "Transpose": _transpose,
    "MultiHeadAttention": _attention,
    "RotaryEmbedding": _rotated,
    "Expand": _repeated,
    **dict.fromkeys(("ReduceSum", "ReduceMean"), _sum),
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze"), _same_numbers),
    **dict.fromkeys(("Relu", "Tanh", "Sigmoid", "Gelu", "BiasGelu", "FastGelu"), _activated),
    **dict.fromkeys(NORMS, _normalized),
}
"""Operator → the gradients of its inputs, of those of its outputs."""
INTEGERS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Expand", "Gather", "ReduceMean", "ReduceSum", "Reshape", "Squeeze", "Unsqueeze"), (1,)),
    "MultiHeadAttention": (4,),
    "RotaryEmbedding": (1,),
}
"""Inputs that no gradient asks for: shapes, places, masks."""
