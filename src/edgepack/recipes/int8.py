"""The int8 that edgepack recommends: smoothed, every token with a scale of its own, weights that no processor clips.

What each of the three is for, and what it brings: docs/decisions.md, *int8 is smoothed, quantized by token, and its
weights are paired*.
"""

from __future__ import annotations

from edgepack.records.recipe import Recipe
from edgepack.records.target import Pass

RECIPE = Recipe(
    name="int8",
    summary="int8 weights and embedding tables, every token's activations quantized at run time; the same for any batch",
    passes=(
        Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False}),
        Pass(name="smooth"),
        Pass(name="int8-dynamic"),
    ),
)
