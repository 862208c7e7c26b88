"""Graphs of one operator that came with opset 23 or later, with inputs for it, and what comes out, by numpy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

Array = np.ndarray[Any, Any]
BATCH, LENGTH, HEAD = 2, 5, 8


@dataclass(frozen=True, kw_only=True)
class Case:
    """One node, what it takes, and what it makes."""

    operator: str
    opset: int
    inputs: Mapping[str, Array]
    """By name; a name that is empty is left out."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expected: Callable[..., Array]
    """Of the inputs and the attributes."""
    judge: bool = True
    """Whether the newest ONNX Runtime has a kernel for it."""

    @property
    def wanted(self) -> Array:
        return self.expected(*self.inputs.values(), **self.attributes)


def model_of(case: Case) -> onnx.ModelProto:
    given = [(name, value) for name, value in case.inputs.items() if value.size]
    names = [name if value.size else "" for name, value in case.inputs.items()]
    while not names[-1]:
        names.pop()
    node = helper.make_node(case.operator, names, ["y"], name="it", **case.attributes)
    inputs = [_value(name, value) for name, value in given]
    graph = helper.make_graph(
        [node], "one", inputs, [helper.make_tensor_value_info("y", 1, case.wanted.shape)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=10)


def _value(name: str, value: Array) -> onnx.ValueInfoProto:
    """The first size is free."""
    sizes: list[Any] = list(value.shape)
    if len(sizes) > 2:
        sizes[0] = "batch"
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), sizes)


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def nothing() -> Array:
    """An input that is left out."""
    return np.zeros(0, np.float32)


def attention(query: Array, key: Array, value: Array, mask: Array | None = None, **given: Any) -> Array:
    """As the operator's text says; of a query that sees nothing, zeros."""
    flat = query.ndim == 3
    if flat:
        query, key, value = (
            each.reshape(*each.shape[:2], given[f"{kind}_num_heads"], -1).transpose(0, 2, 1, 3)
            for each, kind in ((query, "q"), (key, "kv"), (value, "kv"))
        )
    shared = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, shared, axis=1), np.repeat(value, shared, axis=1)
    scores = query @ key.swapaxes(2, 3) * given.get("scale", query.shape[-1] ** -0.5)
    if cap := given.get("softcap", 0.0):
        scores = cap * np.tanh(scores / cap)
    ahead = np.arange(scores.shape[3])[None, :] - np.arange(scores.shape[2])[:, None]
    left, right = given.get("left_window_size", -1), given.get("right_window_size", -1)
    shown = np.ones_like(ahead, bool)
    if given.get("is_causal"):
        shown &= ahead <= 0
    if left >= 0:
        shown &= -ahead <= left
    if right >= 0:
        shown &= ahead <= right
    if mask is not None and mask.size:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    scores = np.where(shown, scores, -np.inf)
    most = scores.max(axis=-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isinf(most), 0, most))
    total = shares.sum(axis=-1, keepdims=True)
    made: Array = (shares / np.where(total == 0, 1, total)) @ value
    return made.transpose(0, 2, 1, 3).reshape(made.shape[0], made.shape[2], -1) if flat else made


def rotated(vector: Array, cosine: Array, sine: Array, positions: Array | None = None, **given: Any) -> Array:
    heads = vector
    if vector.ndim == 3:
        heads = vector.reshape(*vector.shape[:2], given["num_heads"], -1).transpose(0, 2, 1, 3)
    if positions is not None and positions.size:
        cosine, sine = cosine[positions], sine[positions]
    cosine, sine = cosine[:, None], sine[:, None]
    size = given.get("rotary_embedding_dim", 0) or heads.shape[-1]
    part, rest = heads[..., :size], heads[..., size:]
    even, odd = (part[..., ::2], part[..., 1::2]) if given.get("interleaved") else np.split(part, 2, axis=-1)
    left, right = even * cosine - odd * sine, even * sine + odd * cosine
    if given.get("interleaved"):
        turned = np.stack([left, right], axis=-1).reshape(part.shape)
    else:
        turned = np.concatenate([left, right], axis=-1)
    made: Array = np.concatenate([turned, rest], axis=-1)
    return made.transpose(0, 2, 1, 3).reshape(vector.shape) if vector.ndim == 3 else made


def rms(vector: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Array:
    axes = tuple(range(axis % vector.ndim, vector.ndim))
    made: Array = vector / np.sqrt((vector**2).mean(axis=axes, keepdims=True) + epsilon) * scale
    return made


def swish(vector: Array, *, alpha: float = 1.0) -> Array:
    made: Array = vector / (1 + np.exp(-alpha * vector))
    return made


def swiglu(gate: Array, linear: Array, *, alpha: float = 1.0) -> Array:
    return swish(gate, alpha=alpha) * linear


def _attention(name: str, *, opset: int = 23, judge: bool = True, heads: Sequence[int] = (4, 4),
               flat: bool = False, mask: Array | None = None, keys: int = LENGTH, **attributes: Any) -> tuple[str, Case]:  # fmt: skip
    query, shared = heads
    shapes: list[tuple[int, ...]] = [
        (BATCH, query, LENGTH, HEAD),
        (BATCH, shared, keys, HEAD),
        (BATCH, shared, keys, HEAD),
    ]
    if flat:
        shapes = [(shape[0], shape[2], shape[1] * HEAD) for shape in shapes]
        attributes |= {"q_num_heads": query, "kv_num_heads": shared}
    values = [numbers(*shape, seed=at) for at, shape in enumerate(shapes)]
    inputs = dict(zip(("q", "k", "v"), values, strict=True))
    if mask is not None:
        inputs["mask"] = mask
    case = Case(
        operator="Attention",
        opset=opset,
        inputs=inputs,
        attributes=attributes,
        expected=attention,
        judge=judge,
    )
    return name, case


def _padding() -> Array:
    mask = np.ones((BATCH, 1, LENGTH, LENGTH), bool)
    mask[1, ..., 3:] = False
    return mask


def _blind() -> Array:
    """One query sees nothing."""
    mask = _padding()
    mask[0, 0, 2] = False
    return mask


def _angles(*shape: int) -> tuple[Array, Array]:
    turned = numbers(*shape, seed=9)
    return np.cos(turned), np.sin(turned)


def _rotary(name: str, *, flat: bool = False, half: int = HEAD // 2, cache: bool = False, **attributes: Any) -> tuple[str, Case]:  # fmt: skip
    shape = (BATCH, LENGTH, 4 * HEAD) if flat else (BATCH, 4, LENGTH, HEAD)
    cosine, sine = _angles(20, half) if cache else _angles(BATCH, LENGTH, half)
    inputs = {"x": numbers(*shape), "cosine": cosine, "sine": sine}
    if cache:
        inputs["positions"] = np.random.default_rng(4).integers(0, 20, (BATCH, LENGTH))
    if flat:
        attributes["num_heads"] = 4
    case = Case(operator="RotaryEmbedding", opset=23, inputs=inputs, attributes=attributes, expected=rotated)
    return name, case


CASES: Mapping[str, Case] = dict(
    [
        _attention("4D"),
        _attention("3D", flat=True),
        _attention("scaled", scale=0.2),
        _attention("capped", softcap=1.5),
        _attention("causal", is_causal=1),
        _attention("causal-3D-masked", flat=True, is_causal=1, mask=_padding()),
        _attention("shared-4D", heads=(4, 2)),
        _attention("shared-3D", heads=(4, 1), flat=True),
        _attention("bool-mask", mask=_padding()),
        _attention("bool-mask-2D", mask=_padding()[1, 0]),
        _attention("blind-query", mask=_blind()),
        _attention("float-mask", mask=numbers(1, 4, LENGTH, LENGTH, seed=7)),
        _attention("float-mask-3D", mask=numbers(4, LENGTH, LENGTH, seed=7)),
        _attention("other-keys", keys=7, mask=numbers(LENGTH, 7, seed=7)),
        _attention("everything", flat=True, heads=(4, 2), mask=_padding(), is_causal=1, softcap=2.0, scale=0.3),
        _attention("opset-24", opset=24, mask=_padding()),
        _attention("window", opset=25, judge=False, left_window_size=1, right_window_size=2),
        _attention("window-causal", opset=25, judge=False, left_window_size=2, is_causal=1),
        _rotary("rotary-4D"),
        _rotary("rotary-3D", flat=True),
        _rotary("rotary-interleaved", interleaved=1),
        _rotary("rotary-interleaved-3D", flat=True, interleaved=1, cache=True),
        _rotary("rotary-partial", half=2, rotary_embedding_dim=4),
        _rotary("rotary-partial-interleaved", half=3, rotary_embedding_dim=6, interleaved=1, cache=True),
        _rotary("rotary-cache", cache=True),
        ("rms", Case(operator="RMSNormalization", opset=23, expected=rms, attributes={"epsilon": 1e-3},
                     inputs={"x": numbers(2, 3, 8), "scale": numbers(8)})),
        ("rms-two-axes", Case(operator="RMSNormalization", opset=23, expected=rms, attributes={"axis": -2},
                              inputs={"x": numbers(2, 3, 8), "scale": numbers(3, 8)})),
        ("rms-axis-1", Case(operator="RMSNormalization", opset=24, expected=rms, attributes={"axis": 1},
                            inputs={"x": numbers(2, 3, 8), "scale": numbers(3, 8)})),
        ("swish", Case(operator="Swish", opset=24, expected=swish, inputs={"x": numbers(2, 3, 8)})),
        ("swish-alpha", Case(operator="Swish", opset=25, expected=swish, attributes={"alpha": 1.7},
                             inputs={"x": numbers(2, 3, 8)}, judge=False)),
        ("swiglu", Case(operator="SwiGLU", opset=28, expected=swiglu, attributes={"alpha": 0.5}, judge=False,
                        inputs={"a": numbers(2, 3, 8), "b": numbers(2, 3, 8, seed=1)})),
    ]
)  # fmt: skip
