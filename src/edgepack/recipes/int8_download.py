"""int8 for the smallest download: the matrices and tables of ``int8`` with few distinct integers, which compress well.

Speed, memory and file are those of ``int8``; under brotli the model is a third smaller.
"""

from __future__ import annotations

from edgepack.records.recipe import Recipe
from edgepack.records.target import Pass

RECIPE = Recipe(
    name="int8-download",
    summary="int8 of few distinct values: the speed and memory of int8, a third less to download under brotli or gzip",
    passes=(
        Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False}),
        Pass(name="smooth"),
        Pass(name="int8-dynamic", parameters={"steps": 7.0, "table_steps": 5.0}),
    ),
)
