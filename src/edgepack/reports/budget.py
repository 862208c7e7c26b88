"""Whether what devices download is within a target's budget: foretold from the model's weights, then from the model that was made,
and measured at the end."""

import math
from pathlib import Path

import zstandard

from edgepack.errors import BudgetError
from edgepack.recipes.expected import Expected
from edgepack.records.report import Report
from edgepack.records.target import Target

FASTEST = 1
"""Level of zstd, some 500 MB a second."""
BEST_TO_FASTEST = 0.5
"""The slowest encoders make more than this of what the fastest one does of weights: 0.78 of `float-levels`, more of others."""


def foretell_from_weights(target: Target, expected: Expected | None) -> None:
    """Raise ``BudgetError`` when a recipe cannot make a model's weights small enough for the target's budget."""
    allowed = target.download_budget
    if expected is not None and allowed is not None and expected.least > allowed:
        raise _over("the model alone has by this recipe about", expected.packed, target)


def foretell_budget(target: Target, model: Path) -> None:
    """Raise ``BudgetError`` when the model's file alone, compressed ever so well, is over the target's budget."""
    if target.download_budget is None:
        return
    compressed = 0
    encoder = zstandard.ZstdCompressor(level=FASTEST).compressobj()
    with model.open("rb") as file:
        while block := file.read(1 << 20):
            compressed += len(encoder.compress(block))
    compressed += len(encoder.flush())
    if compressed * BEST_TO_FASTEST > target.download_budget:
        raise _over("the model alone has about", compressed, target)


def require_budget(target: Target, report: Report) -> None:
    """Raise ``BudgetError`` when a first visit, the archive or a package has more bytes than the target allows."""
    if target.download_budget is None:
        return
    archive = "a first visit downloads" if report.visits else "the archive has"
    sizes = [(archive, report.download_bytes or 0)]
    sizes += [(f"{each.file} has", each.size) for each in report.packages]
    what, size = max(sizes, key=lambda each: each[1])
    if size > target.download_budget:
        raise _over(what, size, target)


def _over(what: str, size: int, target: Target) -> BudgetError:
    allowed = target.download_budget or 0
    error = BudgetError(
        f"{what} {size / 1e6:.1f} MB, target {target.name} allows {allowed / 1e6:.1f} MB",
        hint=f'a smaller recipe (`edgepack search` compares them), or --set budget.download="{enough(size)}"',
    )
    error.download = size
    return error


def enough(size: int) -> str:
    """A budget that is sure to be kept, in words."""
    return f"{math.ceil(size * 1.05 / 1e6)} MB"
