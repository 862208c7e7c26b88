"""Integers of few distinct values: as many bytes in the file as any int8, half of them on the way to the device.

What travels compressed costs its entropy, not its width. Weights are spread like a bell, so even steps and an entropy
coder (brotli's Huffman codes) beat a fixed number of bits: with the standard deviation at seven steps a weight takes 4.9
bits and loses what five-bit blocks with a scale each lose. The device multiplies the int8 as it is; nothing is expanded.
"""

import numpy as np
import numpy.typing as npt

from edgepack.quantization.arrays import Doubles, Floats, Int8s
from edgepack.quantization.few_values import few_values
from edgepack.quantization.int8 import LARGEST, LARGEST_PAIR, largest_pair
from edgepack.quantization.rounding import Grid, gptq, gptq_both_ways
from edgepack.quantization.token_ranks import Ranks

FEWEST_STEPS = np.float32(0.25)
"""To a standard deviation; of a row of zeros there are none."""
ROOM = 0.85
"""Of the largest integer, for the largest weight: making up for others' rounding may raise it."""
COMMON = 2000
"""Rows of a table that are all taken for common: special tokens, characters, and the first words."""
RARER = 300
RAREST = 3.5
"""How many times as wide the steps of the rarest tokens are, at most."""
DAMPING = 0.3
"""Of moments of gradients: they are sums over texts, and there are fewer texts than there are tokens."""


def entropy_coded_columns(
    values: Floats,
    steps: float,
    moments: Doubles | None,
    outputs: Doubles | None = None,
    *,
    bit_cost: float = 0.0,
) -> tuple[Int8s, Floats]:
    """A matrix [inputs, outputs] as int8 whose columns' standard deviation is ``steps``, and the scales [outputs].

    Steps are wider where a column's largest weight would not fit otherwise. Rounded by GPTQ with ``moments``, Xᵀ·X of what
    the matrix takes, and where they are known with those of its ``outputs``; to the nearest without. As with ``paired`` integers, no processor clips the products.
    """
    if (kept := few_values(values)) is not None:
        return kept
    sizes = np.abs(values)
    widest = np.maximum(sizes.max(axis=0) / LARGEST, largest_pair(sizes) / LARGEST_PAIR) / ROOM
    scales = np.maximum(values.std(axis=0) / np.float32(steps), widest)
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    if moments is None:
        return np.rint(values / scales).astype(np.int8), scales
    grid = Grid(
        scales=scales[None], zeros=np.zeros_like(scales[None]), block=len(values), low=-LARGEST, high=LARGEST
    )
    if outputs is None:
        return unclipped_pairs(gptq(grid, values, moments)), scales
    reach = reach_of(values.std(axis=0) / scales, bit_cost)
    return unclipped_pairs(
        gptq_both_ways(grid, values, moments, outputs, damping=DAMPING, reach=reach)
    ), scales


def entropy_coded_rows(
    values: Floats,
    steps: float,
    *,
    rarity: float = 0.0,
    ranks: Ranks | None = None,
    moments: Doubles | None = None,
    bit_cost: float = 0.0,
) -> tuple[Int8s, Floats]:
    """A table [rows, dimension] as int8 whose rows' standard deviation is ``steps``, and the scales [rows, 1].

    With ``rarity`` rows of rarer tokens have wider steps: a token's frequency falls about as its rank rises (Zipf's law). ``ranks`` are
    those of the rows; ``None``: their order. Steps that are as wide as frequency to the power of
    -0.5 would be best for an average text; less spares the texts that are made of rare words. With ``moments`` [dimension, dimension]
    a row's numbers make up for one another; without, each is rounded by itself.
    """
    if (kept := few_values(values.T)) is not None:
        return kept[0].T, kept[1][:, None]
    widest = np.abs(values).max(axis=1, keepdims=True) / LARGEST
    places = np.arange(len(values)) if ranks is None else ranks
    rarer = np.minimum((1 + np.maximum(places - COMMON, 0) / RARER) ** rarity, RAREST).astype(np.float32)[
        :, None
    ]
    scales = np.maximum(values.std(axis=1, keepdims=True) * rarer / np.float32(steps), widest)
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    if moments is None:
        return np.rint(values / scales).astype(np.int8), scales
    across = Grid(
        scales=scales.T, zeros=np.zeros_like(scales.T), block=values.shape[1], low=-LARGEST, high=LARGEST
    )
    reach = reach_of(values.std(axis=1) / scales[:, 0], bit_cost)
    return gptq(across, values.T, moments, damping=DAMPING, reach=reach).T.astype(np.int8), scales


def reach_of(steps: Floats, bit_cost: float) -> Floats | None:
    """How many times as far apart levels are taken for, where a bit costs so much, in squared steps.

    Of numbers that are spread like a bell, ``steps`` to a standard deviation, the k-th level takes (2k - 1) / (2 ln 2 steps²) bits more than the
    one before it. What a weight's error gains by the k-th is worth that from a place on that is as many times as far out for every k.
    """
    if not bit_cost:
        return None
    reach: Floats = (1 + bit_cost / (2 * np.log(2)) / np.maximum(steps, FEWEST_STEPS) ** 2).astype(np.float32)
    return reach


def unclipped_pairs(integers: npt.NDArray[np.float32]) -> Int8s:
    """Neighbours (0 and 1, 2 and 3, …) of a column that are together above 128 are brought down to it."""
    values = integers.copy()
    even, odd = values[0 : len(values) // 2 * 2 : 2], values[1::2]
    over = np.maximum(np.abs(even) + np.abs(odd) - 128, 0)
    larger = np.abs(even) >= np.abs(odd)
    even -= np.sign(even) * np.where(larger, over, 0)
    odd -= np.sign(odd) * np.where(larger, 0, over)
    clipped: Int8s = values.astype(np.int8)
    return clipped
