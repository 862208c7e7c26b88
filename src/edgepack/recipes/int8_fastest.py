"""The fastest int8: static ranges everywhere, integer products that add their bias themselves, nothing moved about.

Where it is faster than `int8-static`, which any execution provider understands, and by how much: docs/decisions.md, *1.8
times as fast with AVX2 alone*.
"""

from __future__ import annotations

from edgepack.records.recipe import Recipe
from edgepack.records.target import Pass

RECIPE = Recipe(
    name="int8-fastest",
    summary="int8 weights, tables and activations with static ranges, arranged for ONNX Runtime's CPU kernels",
    passes=(
        Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False}),
        Pass(name="smooth"),
        Pass(name="sequence-first"),
        Pass(name="fast-gelu"),
        Pass(name="int8-static", parameters={"form": "integer"}),
    ),
)
