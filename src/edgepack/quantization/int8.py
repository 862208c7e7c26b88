"""Weights as int8: how scales are chosen and values rounded."""

from typing import Literal

import numpy as np

from edgepack.models.graph.editor import GraphEditor
from edgepack.quantization.arrays import Floats, Int8s
from edgepack.quantization.few_values import SMALLEST, few_values

WeightRange = Literal["paired", "full", "reduced"]
"""
How large the integers of a matrix may get. x86 processors without VNNI add the products of two neighbouring inputs in
16 bits and clip the sum (``vpmaddubsw``), so that their results differ from all others' when both weights are large:

- ``paired``: two neighbours together stay below 128, so that no sum is ever clipped; every processor gives the same;
- ``full``: -127 to 127, the finest steps, clipped now and then without VNNI;
- ``reduced``: -63 to 63, upstream's ``reduce_range``: as safe as ``paired``, with coarser steps.
"""

LARGEST = 127
LARGEST_PAIR = 127.99
"""Below 128, so that two rounded neighbours do not exceed 128: 128 · 255 fits into 16 bits, 129 · 255 does not."""


def quantized_columns(values: Floats, weight_range: WeightRange) -> tuple[Int8s, Floats]:
    """A matrix [inputs, outputs] as int8, and the scales [outputs] that it is to be multiplied by."""
    if (kept := few_values(values)) is not None:
        return kept
    scales = _scales(np.abs(values).max(axis=0), LARGEST // 2 if weight_range == "reduced" else LARGEST)
    if weight_range == "paired":
        scales = np.maximum(scales, _scales(largest_pair(np.abs(values)), LARGEST_PAIR))
    return np.rint(values / scales).astype(np.int8), scales


def int8_matrix(editor: GraphEditor, name: str, values: Int8s, scales: Floats) -> tuple[str, str, str]:
    """A matrix [inputs, outputs] in the place of the weight ``name``: it, its scales and its zero points, which are zero."""
    return (
        editor.weight(f"{name}.int8", values),
        editor.weight(f"{name}.scales", scales),
        editor.weight(f"{name}.zeros", np.zeros(len(scales), np.int8)),
    )


def quantized_rows(values: Floats) -> tuple[Int8s, Floats]:
    """A table [rows, dimension] as int8, and the scales [rows, 1] that it is to be multiplied by."""
    if (kept := few_values(values.T)) is not None:
        return kept[0].T, kept[1][:, None]
    scales = _scales(np.abs(values).max(axis=1, keepdims=True), LARGEST)
    return np.rint(values / scales).astype(np.int8), scales


def largest_pair(sizes: Floats) -> Floats:
    """The largest sum of two neighbouring rows (0 and 1, 2 and 3, …) in each column."""
    rows = len(sizes) + len(sizes) % 2
    even = np.zeros((rows, sizes.shape[1]), np.float32)
    even[: len(sizes)] = sizes
    largest: Floats = (even[0::2] + even[1::2]).max(axis=0)
    return largest


def _scales(ranges: Floats, largest: float) -> Floats:
    scales: Floats = (np.where(ranges > SMALLEST, ranges, 1) / np.float32(largest)).astype(np.float32)
    return scales
