"""Recipes in the order of how near to full precision they stay: for a hint to a better one, and for the best that fits a budget."""

LADDER = (
    "fp32",
    "fp16",
    "int8-near",
    "int8-weights",
    "int8",
    "int8-download",
    "int8-compact",
    "int8-smallest",
    "int8-tiny",
)
"""Each makes a smaller download than the one before it."""
BY_TOKEN = ("int8", "int8-download", "int8-compact")
"""Of these, the ones that edgepack's own kernels compute: activations of eight bits, one scale for each token."""
BESIDE = {
    **dict.fromkeys(("int8-dynamic", "int8-static", "int8-fastest", "int4", "int4-int8"), "int8"),
    "int8-fast": "int8-weights",
}
"""Recipe that is no smaller than another of its quality → the one of ``LADDER`` above it."""


def nearer(recipe: str) -> str | None:
    """A recipe whose vectors are nearer to full precision, a step up; ``None`` where there is none."""
    above = dict(zip(LADDER[1:], LADDER, strict=False))
    return BESIDE.get(recipe) or above.get(recipe)
