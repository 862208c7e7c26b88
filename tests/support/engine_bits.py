"""The arithmetic of ``edgepack_engine`` in NumPy: every operation in 32 bits and in the kernels' order, so that bits can be compared.

NumPy rounds each product and each sum by itself, and roots and quotients as IEEE 754 says: what is written here is what every
processor must give.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgepack_engine.plan import Activation

Array = npt.NDArray[Any]
F = np.float32
TILE = 128
"""Keys that have one scale of weights."""
LOWEST = F(-1e30)
LOG2E = F(1.44269504)
GELU = (
    *(0.398493975, -0.0655747056, 0.00932377949, -0.000957215903),
    *(6.77805510e-5, -3.10365294e-6, 8.19090644e-8, -9.39880507e-10),
)
EXPONENTIAL = (
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3),
    *(4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
)


def sum_of(x: Array) -> Array:
    """Of the last axis, whose size is a multiple of 16: every sixteenth in a lane of its own, and then the halves of the lanes."""
    lanes = np.zeros((*x.shape[:-1], 16), F)
    for at in range(0, x.shape[-1], 16):
        lanes = lanes + x[..., at : at + 16]
    for half in (8, 4, 2, 1):
        lanes = lanes[..., :half] + lanes[..., half : 2 * half]
    total: Array = lanes[..., 0]
    return total


def exponential(x: Array) -> Array:
    x = np.maximum(x, F(-87))
    whole = np.rint(x * LOG2E)
    rest = (x - whole * F(0.693359375)) + whole * F(2.12194440e-4)
    power: Array = np.full_like(x, EXPONENTIAL[0])
    for term in EXPONENTIAL[1:]:
        power = power * rest + F(term)
    made: Array = np.ldexp(power * (rest * rest) + rest + F(1), whole.astype(int))
    return made


def power_of_two(x: Array) -> Array:
    x = np.maximum(x, F(-100))
    whole = np.rint(x)
    rest = x - whole
    power = ((rest * F(0.0550087690) + F(0.242210984)) * rest + F(0.693282962)) * rest + F(1)
    made: Array = np.ldexp(power, whole.astype(int))
    return made


def sigmoid(x: Array) -> Array:
    power = exponential(-np.abs(x))
    below = power / (F(1) + power)
    return np.where(x < 0, below, F(1) - below)


def activated(kind: int, x: Array) -> Array:
    if kind == Activation.GELU:
        inside = np.clip(x, F(-4.15), F(4.15))
        part = F(GELU[-1])
        for term in reversed(GELU[:-1]):
            part = part * (inside * inside) + F(term)
        x = x * (inside * part + F(0.5))
    elif kind == Activation.GELU_TANH:
        x = x * sigmoid(x * (F(1.5957691216) + F(0.0713548163) * x * x))
    elif kind == Activation.SILU:
        x = x * sigmoid(x)
    return x


def root_of(x: Array, mean: Array | np.float32, epsilon: float, counted: int) -> Array:
    """One over the root of the mean square of the numbers that count; the others are 0, or the mean."""
    squares = (x - mean) * (x - mean)
    root: Array = F(1) / np.sqrt(sum_of(squares) / F(counted) + F(epsilon))
    return root


def norm(
    x: Array, weight: Array, shift: Array | None, epsilon: float, counted: int, *, without_mean: bool
) -> Array:
    """Of what is added up already; numbers beyond ``counted`` are 0."""
    mean = F(0) if without_mean else (sum_of(x) / F(counted))[..., None]
    counts = np.arange(x.shape[-1]) < counted
    root = root_of(np.where(counts, x, mean), mean, epsilon, counted)
    made: Array = (x - mean) * root[..., None] * weight
    return made if shift is None else made + shift


def quantized(x: Array, smoothing: Array | None, raised: float | None) -> tuple[Array, Array]:
    """Bytes, and the range of each row."""
    x = x if smoothing is None else x * smoothing
    x = x if raised is None else x + F(raised)
    ranges = np.maximum((np.abs(x) if raised is None else x).max(axis=1), F(1e-12))
    steps, middle = (127, 128) if raised is None else (255, 0)
    return (np.rint(x * (F(steps) / ranges)[:, None]) + middle).astype(np.uint8), ranges


def product(whole: Array, ranges: Array, scales: Array, bias: Array, kind: int) -> Array:
    return activated(kind, whole.astype(F) * (scales * ranges[:, None]) + bias)


def _whole(x: Array) -> tuple[Array, Array]:
    """Heads [tokens, heads, size] as integers from -127 to 127, and each one's scale."""
    ranges = np.maximum(np.abs(x).max(axis=2), F(1e-12))
    return np.rint(x * (F(127) / ranges)[..., None]).astype(np.int64), ranges / F(127)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float,
    distances: Sequence[Array],
    hidden: Array,
    keys: int,
) -> Array:
    """[tokens, heads, size] of each; ``distances`` [heads, queries, keys] each; ``hidden`` [queries, keys]. Keys a tile at a time, up to ``keys``."""
    k, v, hidden = k[:keys], v[:keys], hidden[:, :keys]
    (q, q_scale), (k, k_scale), (v, v_scale) = map(_whole, (q, k, v))
    tokens, heads, size = q.shape
    q_scale = q_scale * (F(scale) * LOG2E)
    most, total = np.full((heads, tokens), LOWEST), np.zeros((heads, tokens), F)
    sums = np.zeros((heads, tokens, size), F)
    for first in range(0, keys, TILE):
        tile = slice(first, first + TILE)
        scores = np.einsum("qhd,khd->hqk", q, k[tile]).astype(F) * (
            k_scale[tile].T[:, None] * q_scale.T[..., None]
        )
        for added in distances:
            scores = scores + added[:, :, :keys][:, :, tile] * LOG2E
        scores = np.where(hidden[:, tile], LOWEST, scores)
        scores = np.pad(scores, ((0, 0), (0, 0), (0, -scores.shape[2] % 16)), constant_values=LOWEST)
        peak = np.maximum(most, scores.max(axis=2))
        power = power_of_two(scores - peak[..., None])
        weighed = power[..., : len(v[tile])] * v_scale[tile].T[:, None]
        heavy = np.maximum(weighed.max(axis=2), F(1e-20))
        bytes = np.rint(weighed * (F(255) / heavy)[..., None]).astype(np.int64)
        made = np.einsum("hqk,khd->hqd", bytes, v[tile]).astype(F) * (heavy / F(255))[..., None]
        fade = np.where(most > LOWEST / 2, power_of_two(most - peak), F(0))
        sums = sums * fade[..., None] + made
        total, most = total * fade + sum_of(power), peak
    return (sums * (F(1) / total)[..., None]).transpose(1, 0, 2)


def rotated(x: Array, cosines: Array, sines: Array) -> Array:
    """[rows, heads, size], and [rows, 1, size / 2] of both."""
    one, other = np.split(x, 2, axis=2)
    return np.concatenate([one * cosines - other * sines, other * cosines + one * sines], axis=2)
