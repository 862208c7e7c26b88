"""Weights that have few values already, as models trained in two bits have (https://arxiv.org/abs/2402.17764): they are kept as they are.

Steps chosen by a standard deviation, or by the largest weight, would fall between their levels.
"""

import numpy as np

from edgepack.quantization.arrays import Floats, Int8s

LARGEST = 7
"""Multiple of a column's step: fifteen values, in four bits."""
TOLERANCE = 1 / 128
"""Of a step: weights may have been stored as float16."""
DIVISORS = (1, 2, 3)
"""Of the smallest weight: a column may lack the first multiples of its step."""
SMALLEST = 1e-30
"""What is smaller counts as zero: steps of it would be no float32 of full precision."""


def few_values(values: Floats) -> tuple[Int8s, Floats] | None:
    """A matrix [inputs, outputs] as int8 and its scales [outputs], if every column has multiples of a step alone, up to the seventh.

    ``None`` is for all others, and for zeros.
    """
    sizes = np.abs(values)
    smallest = np.where(sizes > SMALLEST, sizes, np.inf).min(axis=0, initial=np.inf)
    if np.isinf(smallest).all():
        return None
    smallest = np.where(np.isinf(smallest), 1, smallest).astype(np.float32)
    if (sizes.max(axis=0) > (LARGEST + TOLERANCE) * smallest).any():
        return None
    integers = np.zeros_like(values)
    left = np.ones(values.shape[1], bool)
    for divisor in DIVISORS:
        multiples = values / smallest * divisor
        rounded = np.rint(multiples)
        fits = (np.abs(multiples - rounded).max(axis=0) <= TOLERANCE) & (
            np.abs(rounded).max(axis=0) <= LARGEST
        )
        integers = np.where(left & fits, rounded, integers)
        left &= ~fits
    return None if left.any() else (integers.astype(np.int8), _fitted(values, integers))


def _fitted(values: Floats, integers: Floats) -> Floats:
    """The scale of each column by least squares; exact where its weights are exact multiples."""
    squares = np.einsum("ij,ij->j", integers, integers, dtype=np.float64)
    products = np.einsum("ij,ij->j", values, integers, dtype=np.float64)
    return np.where(squares > 0, products / np.maximum(squares, 1), 1).astype(np.float32)
