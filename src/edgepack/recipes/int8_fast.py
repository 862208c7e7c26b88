"""Faster int8 that keeps its vectors: static ranges where activations are steady, token by token where they are not.

What a normalization or attention makes is of about the same size for every token: its range is measured beforehand.
What the activation function makes is not: there every token keeps a scale of its own.
"""

from __future__ import annotations

from edgepack.records.recipe import Recipe
from edgepack.records.target import Pass

RECIPE = Recipe(
    name="int8-fast",
    summary="int8 like `int8`, with static ranges after normalizations and attention: faster, a little further from fp32",
    passes=(
        Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False}),
        Pass(name="smooth"),
        Pass(name="sequence-first"),
        Pass(name="fast-gelu"),
        Pass(name="int8-static", parameters={"activations": "steady", "form": "integer"}),
        Pass(name="int8-dynamic"),
    ),
)
