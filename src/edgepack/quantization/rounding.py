"""Rounding weights to a grid of few levels: to the nearest, with scales fitted, or with errors made up for.

- ``nearest``: each weight by itself;
- ``fitted``: each by itself, with each block's scale as small as its weights' errors ask for; it needs no texts;
- ``gptq``: one input after the other is rounded, and what that changed is made up for by the inputs still to come, as
  calibration texts say that they go together (https://arxiv.org/abs/2210.17323);
- ``gptq_both_ways``: by the inputs and by the outputs still to come, as both matter to the vectors.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from edgepack.quantization.arrays import Doubles, Floats

Rounding = Literal["nearest", "fitted", "gptq"]

DAMPING = 0.01
"""Of the mean of the diagonal, added to it: GPTQ's own figure."""
INPUTS_AT_ONCE = 64
OUTPUTS_AT_ONCE = 8
SHRINKAGES = np.linspace(1.0, 0.7, 13, dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The levels that the weights [inputs, outputs] of a matrix may take: ``(integer - zero) * scale``."""

    scales: Floats
    """[blocks, outputs]."""
    zeros: Floats
    """[blocks, outputs]; whole numbers."""
    block: int
    """Inputs that share a scale; the last block may be shorter."""
    low: int
    high: int


def asymmetric_grid(values: Floats, *, block: int, bits: int) -> Grid:
    """Levels from the smallest to the largest weight of each block, zero among them."""
    high = 2**bits - 1
    blocks = _blocks(values, block)
    lowest, highest = np.minimum(blocks.min(axis=1), 0), np.maximum(blocks.max(axis=1), 0)
    scales = np.where(highest > lowest, highest - lowest, 1) / np.float32(high)
    zeros = np.clip(np.rint(-lowest / scales), 0, high)
    return Grid(
        scales=scales.astype(np.float32), zeros=zeros.astype(np.float32), block=block, low=0, high=high
    )


def with_fitted_scales(grid: Grid, values: Floats) -> Grid:
    """The grid with each block's scale shrunk to where the squared error of its weights is smallest."""
    best, scales = np.full(grid.scales.shape, np.inf, np.float32), grid.scales
    for share in SHRINKAGES:
        tried = replace(grid, scales=grid.scales * share)
        error = _blocks((dequantized(tried, round_to_nearest(tried, values)) - values) ** 2, grid.block).sum(
            axis=1
        )
        scales = np.where(error < best, tried.scales, scales)
        best = np.minimum(best, error)
    return replace(grid, scales=scales)


def round_to_nearest(grid: Grid, values: Floats) -> Floats:
    """The nearest level of each weight, as whole numbers."""
    scales, zeros = _each_input(grid, len(values))
    rounded: Floats = np.clip(np.rint(values / scales) + zeros, grid.low, grid.high)
    return rounded


def dequantized(grid: Grid, integers: Floats) -> Floats:
    """Weights of integers."""
    scales, zeros = _each_input(grid, len(integers))
    weights: Floats = ((integers - zeros) * scales).astype(np.float32)
    return weights


def gptq(
    grid: Grid, values: Floats, moments: Doubles, *, damping: float = DAMPING, reach: Floats | None = None
) -> Floats:
    """GPTQ: whole numbers [inputs, outputs]; ``moments`` is Xᵀ·X of what the matrix takes, [inputs, inputs].

    With ``reach`` [outputs] a weight goes to the level that is nearest when levels are so many times as far apart: to a smaller
    one more often than not, which takes fewer bits.
    """
    return _made_up_for(grid, values, _factors(moments, damping), reach)


def gptq_both_ways(
    grid: Grid,
    values: Floats,
    inputs: Doubles,
    outputs: Doubles,
    *,
    damping: float = DAMPING,
    reach: Floats | None = None,
) -> Floats:
    """GPTQ with the moments of a matrix's inputs and of its outputs; the grid has one block. ``reach`` is explained at ``gptq``.

    Some outputs at a time are rounded by GPTQ, and what that changed is made up for by the outputs still to come.
    """
    factors, across = _factors(inputs, damping), _factors(outputs, damping)
    left = values.astype(np.float32, copy=True)
    integers = np.zeros_like(left)
    for start in range(0, left.shape[1], OUTPUTS_AT_ONCE):
        some, rest = slice(start, start + OUTPUTS_AT_ONCE), slice(start + OUTPUTS_AT_ONCE, None)
        part = replace(grid, scales=grid.scales[:, some], zeros=grid.zeros[:, some])
        further = None if reach is None else reach[some]
        integers[:, some] = _made_up_for(part, left[:, some], factors, further)
        error = dequantized(part, integers[:, some]) - left[:, some]
        left[:, rest] += error @ np.linalg.solve(across[some, some], across[some, rest])
    return integers


def _made_up_for(grid: Grid, values: Floats, factors: Floats, reach: Floats | None) -> Floats:
    scales, zeros = _each_input(grid, len(values))
    widths = scales if reach is None else scales * reach
    left = values.astype(np.float32, copy=True)
    integers = np.zeros_like(left)
    for start in range(0, len(left), INPUTS_AT_ONCE):
        end = min(start + INPUTS_AT_ONCE, len(left))
        errors = np.zeros_like(left[start:end])
        for row in range(start, end):
            integers[row] = np.clip(np.rint(left[row] / widths[row]) + zeros[row], grid.low, grid.high)
            error = (left[row] - (integers[row] - zeros[row]) * scales[row]) / factors[row, row]
            left[row + 1 : end] -= np.outer(factors[row, row + 1 : end], error)
            errors[row - start] = error
        left[end:] -= factors[start:end, end:].T @ errors
    return integers


def _factors(moments: Doubles, damping: float) -> Floats:
    """The upper Cholesky factor of the inverse, float32."""
    damped = moments.copy()
    diagonal = np.einsum("ii->i", damped)
    diagonal[diagonal <= 0] = 1
    diagonal += damping * diagonal.mean()
    factors: Floats = np.linalg.cholesky(np.linalg.inv(damped)).T.astype(np.float32)
    return factors


def _blocks(values: Floats, block: int) -> Floats:
    """[blocks, inputs of a block, outputs]; a last block that is too short is filled with zeros."""
    missing = -len(values) % block
    padded = (
        np.concatenate([values, np.zeros((missing, values.shape[1]), values.dtype)]) if missing else values
    )
    return padded.reshape(-1, block, values.shape[1])


def _each_input(grid: Grid, inputs: int) -> tuple[Floats, Floats]:
    """Scales and zero points of every input, [inputs, outputs]."""
    if len(grid.scales) == 1:
        shape = (inputs, grid.scales.shape[1])
        return np.broadcast_to(grid.scales, shape), np.broadcast_to(grid.zeros, shape)
    return (
        np.repeat(grid.scales, grid.block, axis=0)[:inputs],
        np.repeat(grid.zeros, grid.block, axis=0)[:inputs],
    )
