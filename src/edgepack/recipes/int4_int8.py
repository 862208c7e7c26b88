"""int4 where most of the weights are, in feed-forward matrices and tables; int8 where it hurts more, in attention."""

from __future__ import annotations

from edgepack.records.recipe import Recipe
from edgepack.records.target import Pass

RECIPE = Recipe(
    name="int4-int8",
    summary="int4 tables and feed-forward matrices, int8 attention matrices with activations in 14 bits",
    passes=(
        Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False}),
        Pass(name="int4", parameters={"layers": ["*intermediate*", "*.output.dense*"]}),
        Pass(name="int8-weights"),
    ),
)
