"""int4 within, int8 where it hurts: the first and last layers and what attention hands on."""

from __future__ import annotations

from edgepack.recipes.recipe import Recipe
from edgepack.records import Pass

RECIPE = Recipe(
    name="int4-int8",
    summary="int4 tables and feed-forward matrices, int8 attention matrices with activations in 14 bits",
    passes=(
        Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False}),
        Pass(name="int4", parameters={"layers": ["*intermediate*", "*.output.dense*"]}),
        Pass(name="int8-weights"),
    ),
)
