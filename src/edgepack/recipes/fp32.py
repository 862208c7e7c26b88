"""Full precision: the operators are fused, the numbers stay as they are.

Source: https://onnxruntime.ai/docs/performance/transformers-optimization.html
"""

from __future__ import annotations

from edgepack.records.recipe import Recipe
from edgepack.records.target import Pass

RECIPE = Recipe(
    name="fp32",
    summary="fused, full precision: the vectors of the original model, four bytes a weight",
    passes=(Pass(name="fuse"),),
)
