"""A plan computed step by step in NumPy, in 64 bits: what the kernels of ``edgepack_engine`` are to compute."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from edgepack_engine.plan import Activation, Buffer, Combination, Flag, Function, Plan, Pooled, Rows

Array = npt.NDArray[Any]
erf = np.vectorize(math.erf, otypes=[float])
"""Element by element, in 64 bits."""


def vectors_of(plan: Plan, ids: Array, mask: Array, types: Array) -> Array:
    """Vectors of texts, float [texts, dimension]; each text by itself, without its padding."""
    return np.stack(
        [
            _Text(plan, *(each[row][mask[row] == 1] for each in (ids, types))).vector()
            for row in range(len(ids))
        ]
    )


def parts_of(plan: Plan, ids: Array, types: Array, ends: Array) -> Array:
    """Vectors of parts of one text, each pooled of its own tokens, which are those up to its end."""
    starts = [0, *ends[:-1]]
    return np.stack(
        [
            _Text(plan, ids, types, part=slice(start, end)).vector()
            for start, end in zip(starts, ends, strict=True)
        ]
    )


def given_of(plan: Plan, ids: Array, mask: Array, types: Array) -> Array:
    """What each token of one text has, float [tokens, given]: those that ``mask`` hides from others have it, too."""
    text = _Text(plan, ids, types, seen=int(mask.sum()))
    text.vector()
    return np.concatenate(text.given, axis=1)


def altered(kind: int, x: Array, a: float, b: float) -> Array:
    """A function of numbers, in 64 bits."""
    by: dict[int, Any] = {
        Function.SCALED: lambda: x * a,
        Function.RAISED: lambda: x + a,
        Function.CLIPPED: lambda: np.clip(x, a, b),
        Function.LEAKY: lambda: np.where(x < 0, x * a, x),
        Function.SHRUNK: lambda: np.where(x < -a, x + b, np.where(x > a, x - b, 0)),
        Function.HARD_SIGMOID: lambda: np.clip(x * a + b, 0, 1),
        Function.TANH: lambda: np.tanh(x),
        Function.SIGMOID: lambda: 1 / (1 + np.exp(-x)),
        Function.EXACT_GELU: lambda: 0.5 * x * (1 + erf(x / np.sqrt(2))),
        Function.ELU: lambda: b * np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
        Function.SOFTPLUS: lambda: np.logaddexp(x, 0),
        Function.SOFTSIGN: lambda: x / (1 + np.abs(x)),
        Function.LOG: lambda: np.log(np.maximum(x, 1e-30)),
    }
    made: Array = by[kind]()
    return made


def _activated(kind: int, x: Array) -> Array:
    by: dict[int, Any] = {
        Activation.LINEAR: np.ones_like,
        Activation.GELU: lambda x: 0.5 * (1 + erf(x / np.sqrt(2))),
        Activation.GELU_TANH: lambda x: 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        Activation.SILU: lambda x: 1 / (1 + np.exp(-x)),
    }
    made: Array = x * by[kind](x)
    return made


def _unpacked(weights: Array) -> Array:
    """[width / 16, depth / 4, 16, 4] as [depth, width]."""
    panels, deep, columns, rows = weights.shape
    return weights.transpose(1, 3, 0, 2).reshape(deep * rows, panels * columns).astype(np.int64)


def _whole(x: Array) -> tuple[Array, Array]:
    """Heads [tokens, heads, size] as integers, and each one's scale."""
    scales = np.maximum(np.abs(x).max(axis=2), 1e-12) / 127
    return np.rint(x / scales[..., None]), scales


def _in_bytes(weights: Array) -> Array:
    """Rounded to 255ths of the largest of each tile of 128 keys."""
    made = weights.copy()
    for first in range(0, weights.shape[2], 128):
        tile = weights[..., first : first + 128]
        steps = np.maximum(tile.max(axis=2, keepdims=True), 1e-20) / 255
        made[..., first : first + 128] = np.rint(tile / steps) * steps
    return made


class _Text:
    def __init__(
        self, plan: Plan, ids: Array, types: Array, seen: int | None = None, part: slice | None = None
    ) -> None:
        self.plan, self.ids, self.types = plan, ids, types
        self.seen = len(ids) if seen is None else seen
        self.part = part or slice(0, self.seen)
        self.given: list[Array] = []
        self.positions = np.arange(len(ids))
        self.buffers: dict[Buffer | None, Array] = {}
        self.ranges: dict[Buffer, Array] = {}

    def vector(self) -> Array:
        for step in (*self.plan.steps, *self.plan.pooled):
            getattr(self, step.operation.name.lower())(step)
        return self.buffers[self.plan.vector][0, : self.plan.dimension]

    def pool(self, step: Any) -> None:
        mode, count, place = step.sizes
        x = self.buffers[step.inputs[0]][self.part, :count]
        rising = np.arange(1, len(x) + 1)
        pooled = {
            Pooled.MEAN: lambda: x.mean(axis=0),
            Pooled.FIRST: lambda: x[0],
            Pooled.LAST: lambda: x[-1],
            Pooled.LARGEST: lambda: x.max(axis=0),
            Pooled.ROOT: lambda: x.sum(axis=0) / np.sqrt(len(x)),
            Pooled.RISING: lambda: rising @ x / rising.sum(),
            Pooled.SUM: lambda: x.sum(axis=0),
        }
        (output,) = step.outputs
        made = self.buffers.setdefault(output, np.zeros((1, output.width)))
        made[0, place : place + count] = pooled[mode]()

    def unit(self, step: Any) -> None:
        x = self.buffers[step.inputs[0]]
        lengths = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        self.buffers[step.outputs[0]] = x / lengths

    def give(self, step: Any) -> None:
        count, place = step.sizes
        assert place == sum(each.shape[1] for each in self.given)
        self.given.append(self.buffers[step.inputs[0]][:, :count])

    def _beside_zeros(self, step: Any, made: Array) -> None:
        x = np.zeros_like(self.buffers[step.inputs[0]])
        x[:, : made.shape[1]] = made
        self.buffers[step.outputs[0]] = x

    def alter(self, step: Any) -> None:
        count, kind = step.sizes
        a, b = [*step.numbers, 0.0, 0.0][:2]
        self._beside_zeros(step, altered(kind, self.buffers[step.inputs[0]][:, :count], a, b))

    def combine(self, step: Any) -> None:
        count, kind = step.sizes
        one, other = (self.buffers[each][:, :count] for each in step.inputs)
        by = {
            Combination.ADDED: one + other,
            Combination.SUBTRACTED: one - other,
            Combination.TIMES: one * other,
        }
        self._beside_zeros(step, by[kind])

    def shares(self, step: Any) -> None:
        count, logarithms = step.sizes
        x = self.buffers[step.inputs[0]][:, :count]
        x = x - x.max(axis=1, keepdims=True)
        logs = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        self._beside_zeros(step, logs if logarithms else np.exp(logs))

    def lookup(self, step: Any) -> None:
        table, scales = step.tensors
        _, rows, first, padding = step.sizes
        counted = np.cumsum(self.ids != padding) * (self.ids != padding)
        places = {
            Rows.TOKENS: self.ids,
            Rows.TYPES: self.types,
            Rows.POSITIONS: self.positions,
            Rows.COUNTED: counted,
        }
        by = places[Rows(step.inputs[0])] + first
        assert table is not None
        assert by.max() < rows
        found = table[by] * (1.0 if scales is None else scales[by][:, None].astype(float))
        before = self.buffers.get(step.outputs[0]) if step.flags & Flag.ACCUMULATED else 0
        self.buffers[step.outputs[0]] = found + before

    def norm(self, step: Any) -> None:
        source, skip = step.inputs
        bias, weight, shift, smoothing = step.tensors
        x = self.buffers[source] + (0 if skip is None else self.buffers[skip]) + (0 if bias is None else bias)
        if step.outputs[2] is not None:
            self.buffers[step.outputs[2]] = x
        counted = step.sizes[1]
        centered = x.copy()
        if not step.flags & Flag.WITHOUT_MEAN:
            centered[:, :counted] -= x[:, :counted].mean(axis=1, keepdims=True)
        squares = (centered**2).sum(axis=1, keepdims=True) / counted
        made = centered / np.sqrt(squares + step.numbers[0]) * weight
        self.buffers[step.outputs[0]] = made + (0 if shift is None else shift)
        if step.outputs[1] is not None:
            self._quantize(self.buffers[step.outputs[0]], smoothing, step.outputs[1], raised=None)

    def quantize(self, step: Any) -> None:
        raised = step.numbers[0] if step.flags & Flag.UNSIGNED else None
        width, begin = [*step.sizes, 0][:2]
        x = self.buffers[step.inputs[0]][:, begin : begin + width]
        self._quantize(x, step.tensors[0], step.outputs[0], raised=raised)

    def _quantize(self, x: Array, smoothing: Array | None, output: Buffer, *, raised: float | None) -> None:
        x = x * (1 if smoothing is None else smoothing) + (raised or 0)
        largest = np.maximum((np.abs(x) if raised is None else x).max(axis=1, keepdims=True), 1e-12)
        steps, middle = (127, 128) if raised is None else (255, 0)
        self.buffers[output] = np.rint(x / largest * steps) + middle
        self.ranges[output] = largest

    def product(self, step: Any) -> None:
        weights, sums, scales, bias = step.tensors
        depth, width, activation, zero, place = [*step.sizes, 0][:5]
        (output,) = step.outputs
        matrix = _unpacked(weights)
        assert matrix.shape[0] == depth
        assert np.array_equal(sums, matrix.sum(axis=0))
        whole = (self.buffers[step.inputs[0]] - zero) @ matrix
        made = _activated(activation, whole * scales * self.ranges[step.inputs[0]] + bias)
        if output.width > width:
            self.buffers.setdefault(output, np.zeros((len(made), output.width)))[:, place : place + width] = (
                made
            )
        else:
            self.buffers[output] = made

    def _heads(self, step: Any) -> tuple[Buffer, slice, Array]:
        place, heads, size = step.sizes[:3]
        where = slice(place, place + heads * size)
        buffer = step.inputs[0]
        return buffer, where, self.buffers[buffer][:, where].reshape(-1, heads, size)

    def norm_heads(self, step: Any) -> None:
        buffer, where, x = self._heads(step)
        squares = (x**2).sum(axis=2, keepdims=True) / step.sizes[3]
        made = x / np.sqrt(squares + step.numbers[0]) * step.tensors[0]
        self.buffers[buffer][:, where] = made.reshape(len(x), -1)

    def rotate(self, step: Any) -> None:
        buffer, where, x = self._heads(step)
        angles = (self.positions[:, None] * step.tensors[0])[:, None, :]
        one, other = np.split(x, 2, axis=2)
        made = np.concatenate(
            [one * np.cos(angles) - other * np.sin(angles), other * np.cos(angles) + one * np.sin(angles)],
            axis=2,
        )
        self.buffers[buffer][:, where] = made.reshape(len(x), -1)

    def gate(self, step: Any) -> None:
        one, other = np.split(self.buffers[step.inputs[0]], 2, axis=1)
        self.buffers[step.outputs[0]] = _activated(step.sizes[1], one) * other

    def _by_kinds(self, step: Any, apart: Array) -> Array:
        """What queries and keys add to scores by the kinds of their distances, [heads, queries, keys]."""
        added = np.zeros((step.sizes[0], *apart.shape))
        if len(step.tensors) < 2 or step.tensors[1] is None:
            return added
        kinds, heads, tokens = (
            step.tensors[1][apart + step.sizes[6] // 2],
            step.sizes[0],
            np.arange(len(apart)),
        )
        for at, places in zip((1, 2), (tokens[:, None], tokens[None]), strict=True):
            if step.inputs[at] is not None:
                numbers = self.buffers[step.inputs[at]].reshape(len(apart), heads, -1)
                added += numbers[places, :, kinds].transpose(2, 0, 1)
        return added

    def attention(self, step: Any) -> None:
        heads, groups, size, key, value, radius, reach, *_ = step.sizes
        x = self.buffers[step.inputs[0]]
        places = ((0, heads), (key, groups), (value, groups))
        q, k, v = (x[:, at : at + count * size].reshape(len(x), count, size) for at, count in places)
        k, v = (np.repeat(each, heads // groups, axis=1) for each in (k, v))
        if not step.flags & Flag.IN_FLOATS:
            (q, q_scale), (k, k_scale), (v, v_scale) = (_whole(each) for each in (q, k, v))
            q, k = q * q_scale[..., None], k * k_scale[..., None]
        scores = np.einsum("qhd,khd->hqk", q, k) * step.numbers[0]
        apart = self.positions[None, :] - self.positions[:, None]
        if step.tensors[0] is not None:
            scores = scores + step.tensors[0][:, apart + reach // 2]
        scores = scores + self._by_kinds(step, apart)
        hidden = (np.abs(apart) > radius) if radius else np.zeros_like(apart, bool)
        hidden |= (apart > 0) & bool(step.flags & Flag.CAUSAL)
        hidden |= (self.positions >= self.seen)[None]
        scores = np.where(hidden, -np.inf, scores)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        total = weights.sum(axis=2, keepdims=True)
        if not step.flags & Flag.IN_FLOATS:
            weights = _in_bytes(weights * v_scale.T[:, None])
        made = (np.einsum("hqk,khd->hqd", weights, v) / total).transpose(1, 0, 2).reshape(len(x), -1)
        if step.outputs[0] is step.inputs[0]:
            x[:, : heads * size] = made
        else:
            self.buffers[step.outputs[0]] = made
